import { afterEach, describe, expect, it } from "vitest";
import { script, SCRIPTED, waitFor } from "../support/engine.ts";
import { input, openAgUi } from "./ag-ui/ag-ui-bench.ts";
import { KEY, openAnthropic } from "./anthropic/anthropic-bench.ts";
import { allowing, awaitedIds, isEnd, makeSession, ofType, turn, watch } from "./anthropic/session-bench.ts";
import { openNdjson } from "./ndjson/ndjson-bench.ts";

/** Uses up the budget with the first request, and then wants another. */
const STEPS = [
  { usage: { input_tokens: 100, output_tokens: 10, cost_usd: 1.2 } },
  { shell: "sleep 0.3" },
  { usage: { input_tokens: 10, cost_usd: 0.1 } },
  { say: "went on" },
];
const BUDGET = { usd: 1 };

let bench: { close(): Promise<void> } | undefined;
afterEach(() => bench?.close());

describe("a budget that is used up", () => {
  it("is an open permission in the universal dialect", async () => {
    const app = (bench = await openAgUi());
    await app.test.engine.create("s", { ...SCRIPTED, budget: BUDGET });
    const json = { message: script(...STEPS) };
    expect((await app.call("POST", "/v1/sessions/s/messages", { json })).ok).toBe(true);
    const asked = await waitFor(app.test.log, "s", "permission.requested");
    const info = (await (await app.call("GET", "/v1/sessions/s")).json()) as { pendingActions: unknown[] };
    expect(info.pendingActions).toMatchObject([{ kind: "permission", id: asked.data.permission_id }]);
    const reply = `/v1/sessions/s/permissions/${asked.data.permission_id}/reply`;
    expect((await app.call("POST", reply, { json: { reply: "once" } })).status).toBe(204);
    const ended = await waitFor(app.test.log, "s", "turn.ended");
    expect(ended.data).toMatchObject({ status: "completed" });
  });

  it("is a required action for the official Anthropic client, which confirms it", async () => {
    const app = (bench = await openAnthropic());
    const { id } = await makeSession(app);
    const headers = { authorization: `Bearer ${KEY}` };
    const patched = await app.call("PATCH", `/v1/sessions/${id}`, { json: { budget: BUDGET }, headers });
    expect(patched.status).toBe(200);
    const first = await turn(app, id, ...STEPS);
    expect(first.at(-1)).toMatchObject({ stop_reason: { type: "requires_action" } });
    const [waiting] = awaitedIds(first);
    const use = ofType(first, "agent.tool_use").find((event) => event.id === waiting);
    expect(use).toMatchObject({ name: "budget", evaluated_permission: "ask" });
    const second = await watch(app, id, () => app.send(id, allowing(waiting)), isEnd);
    expect(second.at(-1)).toMatchObject({ stop_reason: { type: "end_turn" } });
    expect(JSON.stringify(second)).toContain("went on");
  });

  it("interrupts a run of AG-UI, which the client resumes", async () => {
    const app = (bench = await openAgUi());
    await app.test.engine.create("t", { ...SCRIPTED, budget: BUDGET });
    const first = await app.run(input("t", script(...STEPS), { protocolVersion: "1.0" }));
    const finished = first.at(-1) as unknown as {
      type: string;
      outcome: { type: string; interrupts: { id: string; message?: string }[] };
    };
    expect(finished).toMatchObject({ type: "RUN_FINISHED", outcome: { type: "interrupt" } });
    const [interrupt] = finished.outcome.interrupts;
    expect(JSON.stringify(interrupt)).toContain("budget");
    const resume = [{ interruptId: interrupt?.id, status: "resolved", payload: { approved: true } }];
    const second = await app.run({ ...input("t", ""), messages: [], protocolVersion: "1.0", resume });
    expect(second.at(-1)).toMatchObject({ type: "RUN_FINISHED", outcome: { type: "success" } });
    const deltas = second.map((event) => (event as { delta?: unknown }).delta);
    expect(deltas.filter((delta) => typeof delta === "string").join("")).toContain("went on");
  });

  it("is told in the lines of NDJSON, and the conversation goes on when it is answered", async () => {
    const app = (bench = await openNdjson());
    await app.test.engine.create("c", { ...SCRIPTED, budget: BUDGET });
    const running = app.run("c", ...STEPS);
    const asked = await waitFor(app.test.log, "c", "permission.requested");
    await app.test.engine.resolvePermission("c", asked.data.permission_id, { reply: "once" });
    const { text } = await running;
    expect(text).toMatch(/waiting/);
    expect(text).toContain("went on");
  });
});
