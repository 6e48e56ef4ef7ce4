import { own } from "../../contract/ownKeys.ts";
import { bridgedToolName, type SluiceEvent } from "../../contract/index.ts";
import type { Asked, Held } from "./state.ts";
import { without, type Teller } from "./teller.ts";
import { toFields, toToolUse } from "./tool-use.ts";

export type Permission = "allow" | "ask" | "deny";

type HeldCall = Extract<Held, { kind: "call" }>;
type Made = Pick<HeldCall, "callId" | "name" | "input" | "sequence">;

/**
 * A call is told once it is known who decides on it and who runs it: by the request that follows it, by its result,
 * or by the turn's next halt.
 */
export function holdCall(teller: Teller, made: Made): void {
  if (Object.hasOwn(teller.state.calls, made.callId)) return;
  teller.change({ held: [...teller.state.held, { kind: "call", ...made }] });
}

/** The held call that a request is about; without an id of its call, the first of that name. */
export function findHeld(
  teller: Teller,
  about: { callId?: string | undefined; name: string },
): HeldCall | undefined {
  const calls = teller.state.held.filter((held) => held.kind === "call");
  if (about.callId !== undefined) return calls.find(({ callId }) => callId === about.callId);
  const bridged = calls.find(({ name }) => bridgedToolName(name) === about.name);
  return bridged ?? calls.find(({ name }) => name === about.name || name.endsWith(`__${about.name}`));
}

export function tellCall(teller: Teller, made: Made, permission: Permission): string {
  const use = toToolUse(made.name, made.input);
  const type = use.kind === "mcp" ? "agent.mcp_tool_use" : "agent.tool_use";
  const eventId = teller.say(
    type,
    {
      ...(use.server === undefined ? {} : { mcp_server_name: use.server }),
      name: use.name,
      input: use.input,
      evaluated_permission: permission,
      ...evaluationOf(permission),
    },
    teller.idOf(made.sequence),
  );
  drop(teller, made.callId, { eventId, kind: use.kind });
  return eventId;
}

/** The application's own tool, or a tool of the toolset that runs where the application is. */
export function tellClientCall(teller: Teller, made: Made, builtin: boolean): "tool" | "custom" {
  if (builtin) {
    tellCall(teller, made, "allow");
    markClient(teller, made.callId);
    return "tool";
  }
  const input = toFields(made.input);
  const eventId = teller.say("agent.custom_tool_use", { name: made.name, input }, teller.idOf(made.sequence));
  drop(teller, made.callId, { eventId, kind: "custom", client: true });
  return "custom";
}

export function markClient(teller: Teller, callId: string): void {
  const call = own(teller.state.calls, callId);
  if (call) teller.change({ calls: { ...teller.state.calls, [callId]: { ...call, client: true } } });
}

/** A result starts, or the turn halts: what is still held runs without anybody's word. */
export function releaseCall(teller: Teller, callId: string): void {
  const held = teller.state.held.find((held) => held.kind === "call" && held.callId === callId);
  if (held?.kind === "call") tellCall(teller, held, "allow");
}

export function releaseAll(teller: Teller): void {
  for (const held of teller.state.held) if (held.kind === "call") tellCall(teller, held, "allow");
}

/** The end of a model's request stands behind the calls that it made. */
export function endSpan(teller: Teller, fields: Record<string, unknown>): void {
  const { sequence } = teller.event;
  teller.change({ held: [...teller.state.held, { kind: "span", sequence, fields }] });
  releaseSpans(teller);
}

/** Whether anybody was asked shows in the event behind the request: a policy answers at once. */
export function settleAsked(teller: Teller): void {
  const { asked } = teller.state;
  if (!asked) return;
  teller.change({ asked: null });
  const permission = decided(asked, teller.event);
  // An application's own tool is told when it is asked to run it.
  if (permission === "allow" && bridgedToolName(asked.name) !== undefined) return;
  const eventId = tellCall(teller, asked, permission);
  const request = { eventId, kind: "permission" } as const;
  teller.change({ requests: { ...teller.state.requests, [asked.permissionId]: request } });
}

export function isPolicy(by: unknown): boolean {
  return typeof by === "string" && (by === "daemon" || by.startsWith("policy:"));
}

function decided(asked: Asked, next: SluiceEvent): Permission {
  if (next.type !== "permission.resolved" || next.data.permission_id !== asked.permissionId) return "ask";
  const by = (next.data.metadata as { by?: unknown } | undefined)?.by;
  if (typeof by !== "string" || !by.startsWith("policy:")) return "ask";
  return next.data.status === "approved" ? "allow" : "deny";
}

function evaluationOf(permission: Permission): object {
  if (permission === "deny") return {};
  return { evaluation: { type: permission === "ask" ? "always_ask" : "always_allow" } };
}

function drop(
  teller: Teller,
  callId: string,
  call: { eventId: string; kind: "toolset" | "mcp" | "custom"; client?: boolean },
): void {
  const { held, calls } = teller.state;
  teller.change({
    held: held.filter((one) => one.kind === "span" || one.callId !== callId),
    calls: { ...calls, [callId]: call },
  });
  releaseSpans(teller);
}

function releaseSpans(teller: Teller): void {
  for (;;) {
    const [first, ...rest] = teller.state.held;
    if (first?.kind !== "span") return;
    teller.change({ held: rest });
    teller.say("span.model_request_end", first.fields, teller.idOf(first.sequence));
  }
}

export function forgetCall(teller: Teller, callId: string): void {
  teller.change({ calls: without(teller.state.calls, callId) });
}
