import { type Fields, toCount, toFields, toList, toNames, toText } from "../fields.ts";
import { own, without } from "../transcript.ts";
import { toCode } from "./failure.ts";
import { isServing, nextPhase, type Reader, type Reading } from "./state.ts";
import { endTurn } from "./turns.ts";

/** The CLI's reports about itself. */
export const readSystem: Reader = (reading, line) => {
  const subtype = toText(line["subtype"]);
  const reader = Object.hasOwn(READERS, subtype) ? READERS[subtype] : undefined;
  if (reader) return reader(reading, line);
  return SYSTEM_NOISE.has(subtype)
    ? undefined
    : `unknown system line ${JSON.stringify(subtype)}`.slice(0, 80);
};

const READERS: Readonly<Record<string, Reader>> = {
  init(reading, line) {
    const native = toText(line["session_id"]);
    const { model, claude_code_version: version, permissionMode: mode } = line;
    if (native !== "") {
      const metadata = { model, version, permission_mode: mode };
      reading.scribe.session(native, metadata);
    }
    const phase = nextPhase(nextPhase(reading.state.phase, "answered"), "begun");
    reading.change({ phase, isIdle: false });
    reportFailedServers(reading, line);
    return undefined;
  },
  api_retry({ state, scribe }, line) {
    if (!isServing(state)) return undefined;
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
    return undefined;
  },
  compact_boundary(reading, line) {
    const trigger = toText(toFields(line["compact_metadata"])["trigger"]);
    reading.change({ compaction: trigger === "" ? {} : { trigger } });
    return undefined;
  },
  task_started(reading, line) {
    const item = reading.scribe.callItem(toText(line["tool_use_id"]));
    const agent = toText(line["task_id"]);
    if (item !== undefined && agent !== "")
      reading.change({ agents: { ...reading.state.agents, [agent]: item } });
    return undefined;
  },
  task_notification(reading, line) {
    const call = toText(line["tool_use_id"]);
    const { background, isIdle, interrupts } = reading.state;
    if (own(background, call) === undefined) return undefined;
    const status = toText(line["status"]);
    reading.scribe.result(call, { output: toText(line["summary"]), failed: status !== "completed" });
    const left = without(background, call);
    reading.change({ background: left });
    // The main agent continues after a sub-agent that ended by itself, but not after one that was stopped.
    const isOver = isIdle && status === "stopped" && Object.keys(left).length === 0;
    if (isOver && interrupts.length === 0) endTurn(reading, { status: "completed", stop_reason: "end_turn" });
    return undefined;
  },
  informational({ scribe }, line) {
    const detail = toText(line["content"]);
    if (detail !== "") scribe.status(toText(line["level"]) || "notice", { detail });
    return undefined;
  },
};

function reportFailedServers(reading: Reading, line: Fields): void {
  const failed = toList(line["mcp_servers"]).flatMap(({ name, status }) =>
    status === "failed" || status === "needs-auth" ? [{ name: toText(name), status }] : [],
  );
  const news = failed.filter(({ name }) => !reading.state.failedServers.includes(name));
  for (const { name, status } of news) {
    const [code, why] =
      status === "failed"
        ? ["mcp_connection_failed", "cannot be reached"]
        : ["mcp_authentication_failed", "wants a login"];
    const message = `The MCP server ${name} ${why}.`;
    reading.scribe.add({ type: "error", data: { code, message, details: { server: name } } });
  }
  if (news.length > 0) reading.change({ failedServers: failed.map(({ name }) => name) });
}

/** Known types without a fact: heartbeats, and news for a terminal. */
export const NOISE: ReadonlySet<string> = toNames(`
  keep_alive auth_status rate_limit_event prompt_suggestion tool_use_summary streamlined_text
  streamlined_tool_use_summary transcript_mirror conversation_reset session_notice tombstone
`);

/** Known subtypes of `system` without a fact. */
const SYSTEM_NOISE: ReadonlySet<string> = toNames(`
  agents_killed api_error away_summary background_tasks_changed bridge_state bridge_status checkpoint_done
  cloud_session_delta cloud_session_status code_change_published commands_changed control_request_progress
  dev_intent elicitation_complete feedback_draft_queued file_attachments_missing file_snapshot
  files_persisted hook_progress hook_response hook_started inherited_asks_settled instruction_size_warning
  local_command local_command_output memory_recall memory_saved mirror_error model_consent_fallback
  model_fallback model_refusal_fallback model_refusal_no_fallback notification peer_message_hold
  per_turn_effort_changed permission_check_status permission_denied permission_retry placed plugin_install
  post_turn_summary rewind_stand_in scheduled_task_fire session_metadata session_state_changed
  session_title_changed session_writes_lost start_folder status stop_hook_summary task_progress
  task_summary task_updated thinking thinking_tokens tool_host_result turn_began_before_init turn_duration
  turn_handoff_available turn_preempted turn_starting ui_focus ui_invalidate ui_log ui_notify
  ui_notify_cancel ui_panes ui_placed ui_scroll ui_status ui_toast upgrade_relay_marker vcs_state_changed
  voice_call_talk worker_shutting_down
`);
