import type { Hono } from "hono";
import { z } from "zod";
import { Scope, SluiceError } from "../../contract/index.ts";
import { type Access, DEFAULT_TENANT, permits } from "../access/access.ts";
import { isOwnCall, readCookie, toCookie } from "../access/logins.ts";
import type { Tokens } from "../access/tokens.ts";
import { readJson } from "../body/json.ts";
import type { AppEnv } from "../context.ts";
import { mountRoute } from "../operation.ts";
import type { Services } from "../services.ts";
import { type CodeGrant, Codes, SharedCodes } from "./codes.ts";
import { type PageFiles, readPage, toPageResponse } from "./site.ts";

/** A browser stays logged in for this long. */
const LOGIN_SECONDS = 30 * 24 * 3600;

const CodeRequest = z.strictObject({ scope: Scope.optional(), session: z.string().min(1).optional() });
const LoginRequest = z.strictObject({ code: z.string().min(1).max(200) });

/** The page, and how a browser logs in to it (docs/decisions/0070). */
export function mountPage(app: Hono<AppEnv>, services: Services, { hasToken }: { hasToken: boolean }): void {
  const { limits, version } = services;
  const codes = services.nodes && services.catalog ? new SharedCodes(services.catalog) : new Codes();
  let files: Promise<PageFiles> | undefined;
  const read = (): Promise<PageFiles> => {
    files ??= readPage().catch((error: unknown) => {
      // The next request tries again.
      files = undefined;
      throw error;
    });
    return files;
  };

  mountRoute(app, services, { method: "GET", path: "/ui", scope: "open" }, (c) => c.redirect("/ui/", 308));

  mountRoute(app, services, { method: "POST", path: "/ui/code", scope: "read" }, async (c, engine) => {
    const wanted = await readJson(c, CodeRequest, limits.json);
    if (wanted.session !== undefined) await engine.info(wanted.session);
    if (!hasToken) return c.json({});
    demand(services.tokens);
    return c.json(await codes.create(await toGrant(c.get("access"), wanted, services)));
  });

  mountRoute(app, services, { method: "POST", path: "/ui/login", scope: "open" }, async (c) => {
    if (!isOwnCall(c))
      throw new SluiceError("foreign_origin", "Only the page itself logs a browser in. Open /ui/.");
    const { code } = await readJson(c, LoginRequest, limits.json);
    const grant = await codes.take(code);
    if (!grant)
      throw new SluiceError(
        "token_invalid",
        "The link has expired or was used already. `sluice open` makes a new one.",
      );
    const { token, proof } = await demand(services.tokens).createLogin(grant.token, grant.login);
    return c.json({ proof }, 200, {
      "set-cookie": toCookie(c, token, grant.token.expiresIn ?? LOGIN_SECONDS),
      "cache-control": "no-store",
    });
  });

  mountRoute(app, services, { method: "POST", path: "/ui/logout", scope: "read" }, async (c) => {
    const { token } = c.get("access");
    if (token !== undefined && readCookie(c)?.startsWith(`${token}.`))
      await demand(services.tokens).revoke(token);
    return c.body(null, 204, { "set-cookie": toCookie(c, "", 0) });
  });

  mountRoute(app, services, { method: "GET", path: "/ui/me", scope: "read" }, async (c) => {
    const { scope, session, isOperator } = c.get("access");
    const me = { scope, ...(session !== undefined && { session }), isOperator: isOperator === true };
    // A page that stays open while its server is replaced learns from this that it is an old one.
    const build = await read().then(
      (page) => page.get("index.html")?.etag,
      () => undefined,
    );
    return c.json({ ...me, version, build, login: hasToken }, 200, { "cache-control": "no-store" });
  });

  mountRoute(app, services, { method: "GET", path: "/ui/*", scope: "open" }, async (c) => {
    const key = c.req.path.slice("/ui/".length);
    return toPageResponse(c, (await read()).get(key === "" ? "index.html" : key));
  });
}

/** A code opens at most what its maker has. */
async function toGrant(
  access: Access,
  { scope = access.scope, session = access.session }: z.infer<typeof CodeRequest>,
  { engine }: Services,
): Promise<CodeGrant> {
  if (!permits(access, scope) || (access.session !== undefined && session !== access.session))
    throw new SluiceError("permission_denied", "A token makes no link that reaches more than itself.");
  const isWhole = scope === access.scope && session === access.session;
  const row = access.isOperator && session !== undefined ? await engine.log.find(session) : undefined;
  const tenant = row?.tenant ?? access.tenant;
  return {
    token: {
      scope,
      name: session === undefined ? "browser" : `browser, ${session}`.slice(0, 128),
      expiresIn: LOGIN_SECONDS,
      ...(session !== undefined && { session }),
      ...(tenant !== DEFAULT_TENANT && { workspace: tenant }),
    },
    login: { ...(isWhole && access.isOperator && { isOperator: true }), parent: access.token },
  };
}

function demand(tokens: Tokens | undefined): Tokens {
  if (tokens) return tokens;
  throw new SluiceError("not_found", "This server has no catalog, and so no browser can log in.");
}
