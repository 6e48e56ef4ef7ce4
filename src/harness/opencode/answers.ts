import { parseOthersJson } from "../../contract/index.ts";
import { isRecord } from "../rpc.ts";
import { failTurn } from "./ends.ts";
import type { Page } from "./page.ts";
import { adoptSession } from "./sessions.ts";
import type { NativeError } from "./state.ts";
import { mcpPrefix } from "./tool-name.ts";

interface HttpAnswer {
  readonly method?: unknown;
  readonly path: string;
  readonly status: number;
  readonly body?: unknown;
}

/** What the server answered to a request. Events say the rest. */
export function readAnswer(page: Page, answer: HttpAnswer): undefined {
  const { method, path, status } = answer;
  const isFine = status >= 200 && status < 300;
  if (
    isFine &&
    (/^\/session(\/[^/]+\/fork)?$/.test(path) || (method === "GET" && /^\/session\/ses[^/]*$/.test(path)))
  ) {
    return adoptSession(page, parseBody(answer.body));
  }
  if (isFine && path === "/mcp") return readServers(page, parseBody(answer.body));
  if (!isFine && /^\/session\/[^/]+\/(prompt_async|message|summarize)$/.test(path))
    return refuse(page, answer);
}

/** A prompt that was not taken has no other end. */
function refuse(page: Page, { path, status, body }: HttpAnswer): undefined {
  const { turn } = page.state;
  if (!turn) return;
  const failure: NativeError = {
    name: "APIError",
    message: toMessage(body) ?? `${path} was answered with ${status}`,
    status: 400,
  };
  if (!turn.hasBegun) return failTurn(page, failure);
  page.setTurn({ awaited: Math.max(0, turn.awaited - 1) });
  page.scribe.add({ type: "error", data: { code: "invalid_request", message: failure.message } });
}

/** Which MCP servers there are, also those of the user's own configuration, and which cannot be used. */
function readServers(page: Page, list: unknown): undefined {
  if (!isRecord(list)) return;
  const names = Object.keys(list);
  page.set({
    servers: { ...page.state.servers, ...Object.fromEntries(names.map((name) => [mcpPrefix(name), name])) },
  });
  for (const [server, status] of Object.entries(list)) {
    if (!isRecord(status) || status["status"] !== "failed") continue;
    const message = `The MCP server ${server} cannot be used: ${String(status["error"] ?? "it failed")}`;
    page.scribe.add({ type: "error", data: { code: "mcp_connection_failed", message, details: { server } } });
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
  return isRecord(data) && typeof data["message"] === "string"
    ? data["message"]
    : JSON.stringify(value).slice(0, 500);
}
