import { z } from "zod";
import { CreatedToken, CreateToken, SluiceError, TokenInfo } from "../../contract/index.ts";
import { whole } from "../../dialects/universal/index.ts";
import { type Access, DEFAULT_TENANT } from "../access/access.ts";
import { refuseSessionToken } from "../access/demand.ts";
import type { Tokens } from "../access/tokens.ts";
import { defineOperations, done, json, type Mount } from "../operation.ts";
import type { Services } from "../services.ts";

const TokenPage = z.strictObject({
  tokens: z.array(TokenInfo),
  next: z.string().optional().describe("the cursor of the next page; absent on the last one"),
});

export const tokenOperations = defineOperations({
  listTokens: {
    method: "GET",
    path: "/v1/tokens",
    scope: "admin",
    tag: "tokens",
    summary: "The tokens that are valid, newest first, without their secrets",
    query: z.object({
      cursor: whole(1).optional().describe("`next` of the previous page"),
      limit: whole(1, 1000).default(100),
    }),
    answer: json("A page of tokens", TokenPage),
    errors: ["invalid_request"],
  },
  createToken: {
    method: "POST",
    path: "/v1/tokens",
    scope: "admin",
    tag: "tokens",
    summary: "Creates a token with a scope; it is valid at once",
    body: { kind: "json", schema: CreateToken },
    answer: json("The token, shown this once", CreatedToken),
    errors: ["invalid_request", "permission_denied"],
  },
  revokeToken: {
    method: "DELETE",
    path: "/v1/tokens/{id}",
    scope: "admin",
    tag: "tokens",
    summary: "Ends a token at once, and soon its open streams",
    answer: done("The token is no longer valid"),
    errors: ["not_found"],
  },
});

/** The tokens of the server. An admin of a workspace sees and makes those of its workspace alone. */
export function mountTokens(mount: Mount, { tokens }: Services): void {
  mount(tokenOperations.listTokens, async ({ c, query: { cursor, limit } }) => {
    refuseSessionToken(c.get("access"), "tokens");
    const page = { after: cursor, limit, ...toWorkspace(c.get("access")) };
    return c.json(await demand(tokens).list(page));
  });

  mount(tokenOperations.createToken, async ({ c, body }) => {
    const access = c.get("access");
    refuseSessionToken(access, "tokens");
    const { workspace = access.tenant } = toWorkspace(access);
    const isNarrower = body.workspace === undefined || body.workspace === workspace;
    if (access.isOperator) return c.json(await demand(tokens).create(body));
    if (!isNarrower)
      throw new SluiceError("permission_denied", "A token creates no token that reaches more than itself.");
    const own = workspace === DEFAULT_TENANT ? {} : { workspace };
    return c.json(await demand(tokens).create({ ...body, ...own }));
  });

  mount(tokenOperations.revokeToken, ({ c, param }) => {
    refuseSessionToken(c.get("access"), "tokens");
    return demand(tokens).revoke(param("id"), toWorkspace(c.get("access")));
  });
}

function toWorkspace({ isOperator, tenant }: Access): { workspace?: string } {
  return isOperator ? {} : { workspace: tenant };
}

function demand(tokens: Tokens | undefined): Tokens {
  if (tokens) return tokens;
  throw new SluiceError("not_found", "This server has no catalog, and so no tokens but its own.");
}
