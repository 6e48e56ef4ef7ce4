import { describe, expect, it } from "vitest";
import type { EventDraft } from "../../src/contract/index.ts";
import { toSettings as toAmpSettings } from "../../src/harness/amp/launch.ts";
import { toRequestId, findOpenCall, withdrawnRequests } from "../../src/sessions/actions/tool-requests.ts";
import { Drafts } from "../../src/sessions/fold/drafts.ts";
import { emptyFold, type SessionFold } from "../../src/sessions/fold/session-fold.ts";
import { policyAnswer } from "../../src/sessions/actions/policy.ts";
import { waitingChange } from "../../src/sessions/fold/waiting.ts";

const RUN = { session: "s", createdAt: 1, process: 1 };
const ID = toRequestId(RUN, "call-1");

describe("a request and its call", () => {
  it.each(["the call first", "the request first"])("are joined: %s", (order) => {
    const events = [called("c1", { city: "Bern", days: 2 }), requested({ days: 2, city: "Bern" })];
    const fold = folded(...(order === "the call first" ? events : events.toReversed()));
    expect(fold.turn?.pending).toMatchObject([{ id: ID, callId: "c1" }]);
    expect(waitingChange(fold)?.type).toBe("turn.waiting");
  });

  it("are not joined where the arguments differ", () => {
    const fold = folded(called("c1", { city: "Basel" }), requested({ city: "Bern" }));
    expect(fold.turn?.pending[0]?.callId).toBeUndefined();
    expect(waitingChange(fold)).toBeUndefined();
  });

  it("are joined once: an equal call belongs to another request", () => {
    const fold = folded(called("c1", {}), requested({}), called("c2", {}));
    expect(fold.turn && findOpenCall(fold.turn, "weather", {})).toBe("c2");
  });
});

it("a repeated call of a run has the same request id, another run has another", () => {
  expect(toRequestId(RUN, "call-1")).toBe(ID);
  for (const other of [{ session: "t" }, { createdAt: 2 }, { process: 2 }])
    expect(toRequestId({ ...RUN, ...other }, "call-1")).not.toBe(ID);
});

it("an interrupt withdraws the requests of the tool server, and no others", () => {
  const own = { request_id: "treq_own", name: "weather", input: {} };
  const fold = folded(requested({}), { type: "tool.requested", source: "agent", data: own });
  expect(withdrawnRequests(fold)).toEqual([]);
  add(fold, { type: "interrupt.requested", source: "daemon", data: { turn_id: "t" } });
  expect(withdrawnRequests(fold).map(({ data }) => data)).toMatchObject([
    { request_id: ID, status: "cancelled" },
  ]);
});

it("an agent's request for an application's tool is granted unless a rule says ask", () => {
  const metadata = { kind: "mcp" };
  const pending = { kind: "permission", id: "p", turnId: "t", sequence: 1, metadata } as const;
  const ask = (prompt: string, rules?: Record<string, "ask">): string | undefined =>
    policyAnswer({ agent: "a", ...(rules && { tools: { rules } }) }, { ...pending, prompt })[0]?.type;
  expect(ask("mcp__sluice__weather")).toBe("permission.resolved");
  expect(ask("mcp__sluice__weather", { "mcp__sluice__*": "ask" })).toBeUndefined();
  expect(ask("mcp__other__weather")).toBeUndefined();
});

it("Amp's settings name the inherited variables, and no value", () => {
  const mcp = { x: { command: "c", env: { A: "1" }, inherit: ["B"], timeoutMs: 5 } };
  expect(toAmpSettings({ agent: "amp", mcp }, { gate: "g" })).toMatchObject({
    "amp.mcpServers": { x: { command: "c", args: [], env: { A: "1", B: "${B}" } } },
  });
});

function called(callId: string, input: unknown): EventDraft {
  const part = {
    type: "tool_call",
    name: "mcp__sluice__weather",
    arguments: JSON.stringify(input),
    call_id: callId,
  } as const;
  const item = {
    item_id: `itm_${callId}`,
    kind: "tool_call",
    role: "assistant",
    status: "completed",
  } as const;
  return { type: "item.completed", source: "agent", data: { item: { ...item, content: [part] } } };
}

function requested(input: unknown): EventDraft {
  return { type: "tool.requested", source: "agent", data: { request_id: ID, name: "weather", input } };
}

/** As in the engine: the request looks for its call. */
function folded(...events: EventDraft[]): SessionFold {
  const fold = emptyFold();
  add(fold, { type: "turn.started", source: "daemon", data: { turn_id: "t", input_ids: [] } });
  for (const event of events) {
    if (event.type === "tool.requested" && fold.turn) {
      const callId = findOpenCall(fold.turn, event.data.name, event.data.input);
      if (callId !== undefined) event.data.call_id = callId;
    }
    add(fold, event);
  }
  return fold;
}

function add(fold: SessionFold, event: EventDraft): void {
  new Drafts(fold, 0).add(event);
}
