import type { CreatedToken, CreateToken, Scope, TokenInfo } from "../contract/index.ts";
import type { CallOptions, Transport } from "./transport.ts";

/** The tokens of a server. */
export interface TokensClient {
  /** The token is in this answer alone: the server stores its hash. */
  create(token: CreateToken, options?: CallOptions): Promise<CreatedToken>;
  /** The valid tokens, newest first. */
  list(options?: CallOptions): AsyncGenerator<TokenInfo, void>;
  /** Ends a token at once, and its open streams within seconds. */
  revoke(id: string, options?: CallOptions): Promise<void>;
  /** A code that logs one browser in to the page, within a minute; absent where the server asks for no token. */
  code(access?: PageAccess, options?: CallOptions): Promise<{ code?: string; expiresAt?: number }>;
}

/** The rights of a browser; by default those of the token that makes the code. */
export interface PageAccess {
  readonly scope?: Scope | undefined;
  readonly session?: string | undefined;
}

export function createTokensClient(transport: Transport): TokensClient {
  return {
    code: (access = {}, options) => transport.json("/ui/code", { ...options, method: "POST", json: access }),
    create: (token, options) => transport.json("/v1/tokens", { ...options, method: "POST", json: token }),
    async *list(options) {
      let cursor: string | undefined;
      do {
        const page: { tokens: TokenInfo[]; next?: string } = await transport.json("/v1/tokens", {
          ...options,
          query: { cursor },
        });
        yield* page.tokens;
        cursor = page.next;
      } while (cursor !== undefined);
    },
    async revoke(id, options) {
      await transport.done(`/v1/tokens/${encodeURIComponent(id)}`, { ...options, method: "DELETE" });
    },
  };
}
