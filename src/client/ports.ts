import { fromResponse } from "./errors.ts";
import { pathOf } from "./paths.ts";
import type { CallOptions, Transport } from "./transport.ts";

/** What a program inside of the sandbox answered; every other answer is the server's own. */
const ANSWERED_BY_PROGRAM = "sluice-port";

export async function hostOf(
  transport: Transport,
  session: string,
  port: number,
  { signal }: CallOptions = {},
): Promise<URL> {
  const { url } = await transport.json<{ url: string }>(pathOf(session, `hosts/${port}`), { signal });
  return new URL(url);
}

/** Any status that the program answers with is an answer; only what the server itself refuses is thrown. */
export async function fetchPort(
  transport: Transport,
  path: string,
  init: RequestInit = {},
): Promise<Response> {
  const response = await transport.fetch(path, init);
  if (response.ok || response.headers.has(ANSWERED_BY_PROGRAM)) return response;
  throw await fromResponse(response);
}

/** `path` goes to the program as it is, its query included. */
export function portPath(session: string, port: number, path: string): string {
  return pathOf(session, `ports/${port}/${path.replace(/^\//, "")}`);
}
