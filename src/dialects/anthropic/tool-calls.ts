import {
  commonToolName,
  fromToolServerName,
  isRecord,
  own,
  type SluiceEvent,
  without,
} from "../../contract/index.ts";
import type { AnthropicProjection } from "./projection.ts";
import { TOOLSET_TOOLS } from "./resources/tools.ts";
import type { Asked, Held, SpanEnd } from "./state.ts";

export type Permission = "allow" | "ask" | "deny";

type HeldCall = Extract<Held, { kind: "call" }>;
type Made = Pick<HeldCall, "callId" | "name" | "input" | "sequence">;

/** Holds a call until its permission is known: from a request, from the call's result, or from a stop of the turn. */
export function holdCall(projection: AnthropicProjection, made: Made): void {
  if (Object.hasOwn(projection.state.calls, made.callId)) return;
  projection.change({ held: [...projection.state.held, { kind: "call", ...made }] });
}

/** The held call of a request. A request without a call id belongs to the first call with its name. */
export function findHeld(
  projection: AnthropicProjection,
  about: { callId?: string | undefined; name: string },
): HeldCall | undefined {
  const calls = projection.state.held.filter((held) => held.kind === "call");
  if (about.callId !== undefined) return calls.find(({ callId }) => callId === about.callId);
  const served = calls.find(({ name }) => fromToolServerName(name) === about.name);
  return served ?? calls.find(({ name }) => name === about.name || name.endsWith(`__${about.name}`));
}

function emitCall(projection: AnthropicProjection, made: Made, permission: Permission): string {
  const use = toToolUse(made.name, made.input);
  const id = projection.idOf(made.sequence);
  const fields = {
    name: use.name,
    input: use.input,
    evaluated_permission: permission,
    ...evaluationOf(permission),
  };
  const eventId =
    use.kind === "mcp"
      ? projection.emit("agent.mcp_tool_use", { mcp_server_name: use.server ?? "", ...fields }, id)
      : projection.emit("agent.tool_use", fields, id);
  showCall(projection, made.callId, { eventId, kind: use.kind });
  return eventId;
}

/** A call of the application's own tool, or of a toolset's tool that the application runs. */
export function emitClientCall(
  projection: AnthropicProjection,
  made: Made,
  builtin: boolean,
): "tool" | "custom" {
  if (builtin) {
    emitCall(projection, made, "allow");
    markClient(projection, made.callId);
    return "tool";
  }
  const input = toInput(made.input);
  const eventId = projection.emit(
    "agent.custom_tool_use",
    { name: made.name, input },
    projection.idOf(made.sequence),
  );
  showCall(projection, made.callId, { eventId, kind: "custom", client: true });
  return "custom";
}

export function markClient(projection: AnthropicProjection, callId: string): void {
  const call = own(projection.state.calls, callId);
  if (call) projection.change({ calls: { ...projection.state.calls, [callId]: { ...call, client: true } } });
}

/** Emits a held call whose result starts. Nobody was asked about it, so it counts as allowed. */
export function releaseCall(projection: AnthropicProjection, callId: string): void {
  const held = projection.state.held.find((held) => held.kind === "call" && held.callId === callId);
  if (held?.kind === "call") emitCall(projection, held, "allow");
}

/** Emits all held calls when the turn waits, retries or ends. */
export function releaseAll(projection: AnthropicProjection): void {
  for (const held of projection.state.held) if (held.kind === "call") emitCall(projection, held, "allow");
}

/** Emits the end of a model request, or holds it until the calls before it are emitted. */
export function endSpan(projection: AnthropicProjection, fields: SpanEnd): void {
  const { sequence } = projection.event;
  projection.change({ held: [...projection.state.held, { kind: "span", sequence, fields }] });
  releaseSpans(projection);
}

/** Emits the call of a permission request. The event after the request shows who decides: a policy answers at once. */
export function settleAsked(projection: AnthropicProjection): void {
  const { asked } = projection.state;
  if (!asked) return;
  projection.change({ asked: null });
  const permission = permissionOf(asked, projection.event);
  // An application's own tool appears with its tool request.
  if (permission === "allow" && fromToolServerName(asked.name) !== undefined) return;
  const eventId = emitCall(projection, asked, permission);
  const request = { eventId, kind: "permission" } as const;
  projection.change({ requests: { ...projection.state.requests, [asked.permissionId]: request } });
}

/** Whether no person has resolved a request: a policy of the session did, or sluice itself. */
export function isResolvedByNobody(by: unknown): boolean {
  return by === "daemon" || isPolicy(by);
}

function isPolicy(by: unknown): boolean {
  return typeof by === "string" && by.startsWith("policy:");
}

/** The permission of a call, from the event after its request. Only a policy's decision comes so early. */
function permissionOf(asked: Asked, next: SluiceEvent): Permission {
  if (next.type !== "permission.resolved" || next.data.permission_id !== asked.permissionId) return "ask";
  const by = (next.data.metadata as { by?: unknown } | undefined)?.by;
  if (!isPolicy(by)) return "ask";
  return next.data.status === "approved" ? "allow" : "deny";
}

function evaluationOf(permission: Permission): {
  evaluation?: { type: "always_ask" } | { type: "always_allow" };
} {
  if (permission === "deny") return {};
  return { evaluation: { type: permission === "ask" ? "always_ask" : "always_allow" } as const };
}

/** Moves a call from the held ones to the emitted ones. */
function showCall(
  projection: AnthropicProjection,
  callId: string,
  call: { eventId: string; kind: "toolset" | "mcp" | "custom"; client?: boolean },
): void {
  const { held, calls } = projection.state;
  projection.change({
    held: held.filter((one) => one.kind === "span" || one.callId !== callId),
    calls: { ...calls, [callId]: call },
  });
  releaseSpans(projection);
}

function releaseSpans(projection: AnthropicProjection): void {
  for (;;) {
    const [first, ...rest] = projection.state.held;
    if (first?.kind !== "span") return;
    projection.change({ held: rest });
    projection.emit("span.model_request_end", first.fields, projection.idOf(first.sequence));
  }
}

export function forgetCall(projection: AnthropicProjection, callId: string): void {
  projection.change({ calls: without(projection.state.calls, callId) });
}

/** A tool call, with the toolset's names for the tool and its input if the toolset has the tool. */
export interface ToolUse {
  readonly kind: "toolset" | "mcp";
  readonly name: string;
  readonly server?: string;
  readonly input: Record<string, unknown>;
}

export function toToolUse(name: string, input: unknown): ToolUse {
  const fields = toInput(input);
  const served = fromToolServerName(name);
  if (served !== undefined) return { kind: "toolset", name: served, input: fields };
  const [, server, tool] = /^mcp__(.+?)__(.+)$/.exec(name) ?? [];
  if (server !== undefined && tool !== undefined) return { kind: "mcp", name: tool, server, input: fields };
  const common = commonToolName(name);
  return {
    kind: "toolset",
    name: common,
    input: TOOLSET.has(common) ? toToolsetInput(common, fields) : fields,
  };
}

const TOOLSET: ReadonlySet<string> = new Set(TOOLSET_TOOLS);

const FILE_KEYS: Readonly<Record<string, string>> = {
  path: "file_path",
  filePath: "file_path",
  absolute_path: "file_path",
  target_file: "file_path",
  old: "old_string",
  oldString: "old_string",
  new: "new_string",
  newString: "new_string",
  replaceAll: "replace_all",
};

function toToolsetInput(tool: string, fields: Record<string, unknown>): Record<string, unknown> {
  if (tool === "bash") return toCommand(fields);
  if (tool !== "read" && tool !== "write" && tool !== "edit") return fields;
  return Object.fromEntries(
    Object.entries(fields).map(([key, value]) => [own(FILE_KEYS, key) ?? key, value]),
  );
}

/** Some CLIs give a command as a list of words; the toolset has it as one text. */
function toCommand({ command, timeout, ...rest }: Record<string, unknown>): Record<string, unknown> {
  const text = Array.isArray(command) ? command.map(String).join(" ") : command;
  return {
    ...(text === undefined ? {} : { command: text }),
    ...(timeout === undefined ? {} : { timeout_ms: timeout }),
    ...rest,
  };
}

function toInput(input: unknown): Record<string, unknown> {
  if (isRecord(input)) return input;
  return input === undefined || input === null ? {} : { value: input };
}
