import { own, without } from "../transcript.ts";
import { endTurn } from "./ending.ts";
import { toCode } from "./failure.ts";
import { type Fields, toCount, toFields, toList, toText } from "./fields.ts";
import { SYSTEM_NOISE } from "./noise.ts";
import type { Reader } from "./reading.ts";
import type { ClaudeState } from "./state.ts";

/** The CLI's news about itself. */
export const readSystem: Reader = (state, line, reading) => {
  const subtype = toText(line["subtype"]);
  const reader = Object.hasOwn(READERS, subtype) ? READERS[subtype] : undefined;
  if (reader) return reader(state, line, reading);
  return SYSTEM_NOISE.has(subtype) ? state : `unknown system line ${JSON.stringify(subtype)}`.slice(0, 80);
};

const READERS: Readonly<Record<string, Reader>> = {
  init(state, line, { scribe }) {
    const native = toText(line["session_id"]);
    const { model, claude_code_version: version, permissionMode: mode } = line;
    if (native !== "") {
      const metadata = { model, version, permission_mode: mode };
      scribe.add({ type: "session.started", native_session_id: native, data: { metadata } });
    }
    return tellFailedServers({ ...state, isReady: true, isBegun: true, isIdle: false }, line, scribe);
  },
  api_retry(state, line, { scribe }) {
    if (!isServing(state)) return state;
    const status = toCount(line["error_status"]);
    const code = toCode({ status, kind: toText(line["error"]) });
    const words = status === 0 ? "the connection to the model failed" : `the model answered ${status}`;
    const maximum = toCount(line["max_retries"]);
    scribe.add({
      type: "turn.retrying",
      data: {
        turn_id: "",
        attempt: Math.round(toCount(line["attempt"])),
        ...(maximum === 0 ? {} : { max_attempts: Math.round(maximum) }),
        delay_ms: toCount(line["retry_delay_ms"]),
        error: { code, message: `${words} (${toText(line["error"]) || code})`, retryable: true },
      },
    });
    return state;
  },
  compact_boundary(state, line) {
    const trigger = toText(toFields(line["compact_metadata"])["trigger"]);
    return { ...state, compaction: trigger === "" ? {} : { trigger } };
  },
  task_notification(state, line, { scribe }) {
    const call = toText(line["tool_use_id"]);
    if (own(state.background, call) === undefined) return state;
    const status = toText(line["status"]);
    scribe.result(call, { output: toText(line["summary"]), failed: status !== "completed" });
    const next = { ...state, background: without(state.background, call) };
    // The main agent hears of a sub-agent that came to an end, and goes on; of one that was stopped it does not.
    const isOver = next.isIdle && status === "stopped" && Object.keys(next.background).length === 0;
    const isStopping = next.interrupts.length > 0;
    return isOver && !isStopping
      ? endTurn(next, { status: "completed", stop_reason: "end_turn" }, scribe)
      : next;
  },
  informational(state, line, { scribe }) {
    const detail = toText(line["content"]);
    if (detail !== "") scribe.status(toText(line["level"]) || "notice", { detail });
    return state;
  },
};

/** Whether somebody waits for what the CLI does. */
export function isServing({ inTurn, isAddressed }: ClaudeState): boolean {
  return inTurn || !isAddressed;
}

function tellFailedServers(
  state: ClaudeState,
  line: Fields,
  scribe: Parameters<Reader>[2]["scribe"],
): ClaudeState {
  const failed = toList(line["mcp_servers"]).flatMap(({ name, status }) =>
    status === "failed" || status === "needs-auth" ? [{ name: toText(name), status }] : [],
  );
  const news = failed.filter(({ name }) => !state.failedServers.includes(name));
  for (const { name, status } of news) {
    const [code, why] =
      status === "failed"
        ? ["mcp_connection_failed", "cannot be reached"]
        : ["mcp_authentication_failed", "wants a login"];
    const message = `The MCP server ${name} ${why}.`;
    scribe.add({ type: "error", data: { code, message, details: { server: name } } });
  }
  return news.length === 0 ? state : { ...state, failedServers: failed.map(({ name }) => name) };
}
