import { once } from "node:events";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";

/** An authorization server with single-use refresh tokens. */
export interface OAuthServer {
  readonly endpoint: string;
  readonly first: { readonly access_token: string; readonly refresh_token: string };
  readonly asked: { readonly form: Record<string, string>; readonly authorization: string | undefined }[];
  /** Every issued token. */
  readonly tokens: readonly string[];
  isOpen(authorization: string | undefined): boolean;
  /** Ends the access token before its time. */
  revoke(): void;
  /** Ends the refresh token, too. */
  forget(): void;
  close(): void;
}

let servers = 0;

export async function startOAuthServer(): Promise<OAuthServer> {
  servers += 1;
  const mark = `oauth-${servers}-${process.pid}`;
  const asked: OAuthServer["asked"] = [];
  const tokens: string[] = [];
  const next = (kind: string): string => {
    const token = `${mark}-${kind}-secret-${tokens.length}`;
    tokens.push(token);
    return token;
  };
  const first = { access_token: next("access"), refresh_token: next("refresh") };
  let [access, refresh]: (string | undefined)[] = [first.access_token, first.refresh_token];
  const answer = (
    form: Record<string, string>,
    { authorization }: IncomingHttpHeaders,
  ): object | undefined => {
    asked.push({ form, authorization });
    if (form["grant_type"] !== "refresh_token" || form["refresh_token"] !== refresh) return undefined;
    [access, refresh] = [next("access"), next("refresh")];
    return { access_token: access, refresh_token: refresh, token_type: "Bearer", expires_in: 3600 };
  };
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk: Buffer) => (body += chunk.toString()));
    request.on("end", () => {
      const tokens = answer(Object.fromEntries(new URLSearchParams(body)), request.headers);
      response.writeHead(tokens ? 200 : 400, { "content-type": "application/json" });
      // Slow enough to notice concurrent requests.
      setTimeout(() => response.end(JSON.stringify(tokens ?? { error: "invalid_grant" })), 100);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}/token`,
    first,
    asked,
    tokens,
    isOpen: (authorization) => access !== undefined && authorization === `Bearer ${access}`,
    revoke: () => (access = undefined),
    forget: () => ([access, refresh] = [undefined, undefined]),
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}
