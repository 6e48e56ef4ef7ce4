import { parseOthersJson } from "../../contract/index.ts";
import { asText, defined, isRecord, toFields } from "../fields.ts";
import { own } from "../transcript.ts";
import { mcpPrefix, type NativeError, type OpencodeReading, type Properties } from "./state.ts";
import { failTurn } from "./turns.ts";

/** Takes the server's new session as the main one. */
export function adoptSession(reading: OpencodeReading, info: unknown): undefined {
  if (!isRecord(info) || typeof info["id"] !== "string" || reading.state.session !== undefined) return;
  if (typeof info["parentID"] === "string") return;
  reading.change({ session: info["id"] });
  reportSession(reading, info);
}

/** Reports the main session's id, once. */
export function reportSession(reading: OpencodeReading, info: Properties = {}): void {
  const { session, isTold } = reading.state;
  if (session === undefined || isTold) return;
  const metadata = { version: asText(info["version"]), directory: asText(info["directory"]) };
  reading.change({ isTold: true });
  reading.scribe.session(session, defined(metadata));
}

/**
 * Binds a sub-agent's session to the only task call without a session. Usually the call has named its session before.
 */
export function readChild(reading: OpencodeReading, { info }: Properties): undefined {
  if (!isRecord(info) || typeof info["id"] !== "string" || !reading.originOf(info["parentID"])) return;
  const { children, calls } = reading.work;
  if (own(children, info["id"]) !== undefined) return;
  const taken = new Set(Object.values(children));
  const tasks = Object.keys(calls).filter(
    (call) => reading.scribe.transcript.calls[call]?.name === "task" && !taken.has(call),
  );
  if (tasks.length === 1 && tasks[0] !== undefined) bindChild(reading, info["id"], tasks[0]);
}

export function bindChild(reading: OpencodeReading, session: string, call: string): void {
  if (reading.isMain(session) || own(reading.work.children, session) === call) return;
  reading.changeWork({ children: { ...reading.work.children, [session]: call } });
}

/** A new stream of events begins. If it is not the first, deltas of open texts may be lost. */
export function markGap(reading: OpencodeReading): undefined {
  const open = Object.keys(reading.scribe.transcript.texts);
  if (open.length === 0) return;
  const torn = Object.fromEntries(open.map((part) => [part, true as const]));
  reading.changeWork({ torn: { ...reading.work.torn, ...torn } });
}

interface HttpAnswer {
  readonly method?: unknown;
  readonly path: string;
  readonly status: number;
  readonly body?: unknown;
}

/** The server's answer to a request. Events report the rest. */
export function readAnswer(reading: OpencodeReading, answer: HttpAnswer): undefined {
  const { method, path, status } = answer;
  const isFine = status >= 200 && status < 300;
  if (
    isFine &&
    (/^\/session(\/[^/]+\/fork)?$/.test(path) || (method === "GET" && /^\/session\/ses[^/]*$/.test(path)))
  ) {
    return adoptSession(reading, parseBody(answer.body));
  }
  if (isFine && path === "/mcp") return readServers(reading, parseBody(answer.body));
  if (!isFine && /^\/session\/[^/]+\/(prompt_async|message|summarize)$/.test(path))
    return refuse(reading, answer);
}

/** The server refused a prompt: a turn that has not begun fails, a running one goes on with an error reported. */
function refuse(reading: OpencodeReading, { path, status, body }: HttpAnswer): undefined {
  const { turn } = reading.state;
  if (!turn) return;
  const failure: NativeError = {
    name: "APIError",
    message: toMessage(body) ?? `${path} was answered with ${status}`,
    // Whatever the status was, the error is reported as `invalid_request`.
    status: 400,
  };
  if (!turn.hasBegun) return failTurn(reading, failure);
  reading.changeTurn({ awaited: Math.max(0, turn.awaited - 1) });
  reading.scribe.error({ code: "invalid_request", message: failure.message });
}

/** Notes the MCP servers, also those of the user's own configuration, and reports the failed ones. */
function readServers(reading: OpencodeReading, list: unknown): undefined {
  if (!isRecord(list)) return;
  const names = Object.fromEntries(Object.keys(list).map((name) => [mcpPrefix(name), name]));
  reading.change({ servers: { ...reading.state.servers, ...names } });
  for (const [server, status] of Object.entries(list)) {
    if (!isRecord(status) || status["status"] !== "failed") continue;
    const message = `The MCP server ${server} cannot be used: ${String(status["error"] ?? "it failed")}`;
    reading.scribe.error({ code: "mcp_connection_failed", message }, { details: { server } });
  }
}

function parseBody(body: unknown): unknown {
  if (typeof body !== "string") return body;
  try {
    return parseOthersJson(body);
  } catch {
    return undefined;
  }
}

function toMessage(body: unknown): string | undefined {
  const value = parseBody(body);
  if (!isRecord(value)) return typeof body === "string" && body !== "" ? body.slice(0, 500) : undefined;
  const { message, data } = value;
  if (typeof message === "string") return message;
  return asText(toFields(data)["message"]) ?? JSON.stringify(value).slice(0, 500);
}
