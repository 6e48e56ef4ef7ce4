import type { SpoolLine } from "../../contract/index.ts";
import { isRecord } from "../rpc.ts";
import { parseObject } from "../unparsed.ts";

/** A line on the bridge's stdin: a request to OpenCode's server. `input` is ours and goes no further. */
export interface Request {
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
  readonly input?: string;
}

/** What a request is about, as far as it concerns a turn. */
export type Route =
  | { readonly to: "prompt"; readonly session: string; readonly body: Body; readonly input: string }
  | { readonly to: "summarize" | "abort"; readonly session: string; readonly input: string }
  | { readonly to: "permission"; readonly ask: string; readonly body: Body }
  | { readonly to: "answer"; readonly ask: string; readonly body: Body }
  | { readonly to: "reject"; readonly ask: string }
  | { readonly to: "mcp"; readonly body: Body };

export type Body = Readonly<Record<string, unknown>>;

export function toLine(request: Request): string {
  return JSON.stringify(request);
}

export function parseRoute(line: SpoolLine): Route | undefined {
  const request = parseObject(line);
  if (typeof request === "string" || request["method"] !== "POST") return undefined;
  const { path, body: given, input: name } = request;
  if (typeof path !== "string") return undefined;
  const body = isRecord(given) ? given : {};
  const input = typeof name === "string" ? name : "";
  if (path === "/mcp") return { to: "mcp", body };
  const [, room, id = "", verb, last] = path.split("/").map(decode);
  if (room === "session" && (verb === "prompt_async" || verb === "message"))
    return { to: "prompt", session: id, body, input };
  if (room === "session" && (verb === "summarize" || verb === "abort"))
    return { to: verb, session: id, input };
  // An older form of the same answer.
  if (room === "session" && verb === "permissions") {
    return { to: "permission", ask: last ?? "", body: { ...body, reply: body["response"] } };
  }
  if (room === "permission" && verb === "reply") return { to: "permission", ask: id, body };
  if (room === "question" && verb === "reply") return { to: "answer", ask: id, body };
  if (room === "question" && verb === "reject") return { to: "reject", ask: id };
  return undefined;
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
