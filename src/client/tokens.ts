import type { CreatedToken, CreateToken, TokenInfo } from "../contract/index.ts";
import type { CallOptions, Transport } from "./transport.ts";

/** The tokens of a server. */
export interface TokensClient {
  /** The token is in this answer alone: the server stores its hash. */
  create(token: CreateToken, options?: CallOptions): Promise<CreatedToken>;
  /** The valid tokens, newest first. */
  list(options?: CallOptions): AsyncGenerator<TokenInfo, void>;
  /** Ends a token at once, and its open streams within seconds. */
  revoke(id: string, options?: CallOptions): Promise<void>;
}

export function createTokensClient(transport: Transport): TokensClient {
  return {
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
