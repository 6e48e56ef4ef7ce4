import { createHmac } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type AnthropicBench, BETA, envelopeOf, openAnthropic } from "../anthropic-bench.ts";
import { history, makeSession, message, text, turn, watch } from "../session-bench.ts";
import { type Report, now, freshNonce, register, post, said, custom } from "./callback-bench.ts";

describe("H6: a report of a remote runner", () => {
  let bench: AnthropicBench;
  beforeAll(async () => {
    bench = await openAnthropic();
  });
  afterAll(() => bench.close());

  const logOf = async (session: string): Promise<{ type: string; data: unknown }[]> => {
    const stored = await bench.test.log.read(session, { after: 0, limit: 1000 });
    return stored.map(({ body }) => JSON.parse(body) as { type: string; data: unknown });
  };
  const headOf = async (session: string): Promise<number> => (await logOf(session)).length;
  const refusals = async (): Promise<Record<string, number>> => {
    const metrics = await (
      await bench.call("GET", "/metrics", { headers: { authorization: "Bearer sk-test-correct-horse" } })
    ).text();
    const found = metrics.matchAll(/^sluice_callbacks_refused_total\{reason="(\w+)"\} (\d+)$/gm);
    return Object.fromEntries([...found].map(([, reason, count]) => [reason, Number(count)]));
  };
  /** The difference of the counters. */
  const counting = async (act: () => Promise<unknown>): Promise<Record<string, number>> => {
    const before = await refusals();
    await act();
    const after = Object.entries(await refusals()).map(([reason, count]) => [
      reason,
      count - (before[reason] ?? 0),
    ]);
    return Object.fromEntries(after.filter(([, more]) => more !== 0));
  };

  it("reaches the log as a whole, and its error reaches the session's readers", async () => {
    const { id } = await makeSession(bench);
    const { secret, run_id } = await register(bench.client, id);
    const body = said(run_id, custom("progress", { done: 0.5 }), {
      type: "error",
      message: "the runner's disk is full",
      code: "disk",
    });
    const events = await watch(
      bench,
      id,
      async () => {
        const response = await post(bench.url, id, { body, secret });
        expect(response.status).toBe(200);
        expect(await response.json()).toMatchObject({ accepted: 2, duplicate: false, ignored: false });
      },
      ({ type }) => type === "session.error",
    );
    expect(events.at(-1)).toMatchObject({
      error: { type: "unknown_error", message: "the runner's disk is full" },
    });
    expect(await history(bench, id)).toEqual(events);
    expect((await logOf(id)).slice(-2).map(({ type, data }) => ({ type, data }))).toEqual([
      { type: "custom", data: { name: "progress", value: { done: 0.5 } } },
      { type: "error", data: { message: "the runner's disk is full", code: "runner_disk" } },
    ]);
    expect((await turn(bench, id, { say: "after it" })).at(-1)?.type).toBe("session.status_idle");
  });

  it("may arrive during a turn", async () => {
    const { id } = await makeSession(bench);
    const { secret, run_id } = await register(bench.client, id);
    await turn(bench, id, { say: "the agent runs" });
    await watch(bench, id, async () => {
      await bench.beta.sessions.events.send(id, { events: [message(text({ sleep: 300 }, { say: "end" }))] });
      expect((await post(bench.url, id, { body: said(run_id, custom("meanwhile")), secret })).status).toBe(
        200,
      );
    });
    const types = (await logOf(id)).map(({ type }) => type);
    expect(types.indexOf("custom")).toBeGreaterThan(types.lastIndexOf("turn.started"));
    expect(types.indexOf("custom")).toBeLessThan(types.lastIndexOf("turn.ended"));
  });

  it("with a wrong or no signature is a 401, changes nothing and is counted", async () => {
    const { id } = await makeSession(bench);
    const { secret, run_id } = await register(bench.client, id);
    const body = said(run_id, custom("forged"));
    const { secret: foreign } = await register(bench.client, (await makeSession(bench)).id);
    const wrong: Partial<Report>[] = [
      { secret: "guessed" },
      { secret: foreign },
      { secret: "sk-test-correct-horse" },
      { signature: "" },
      { signature: "v1=" },
      { signature: `v1=${"0".repeat(64)}` },
      { signature: `v0=${createHmac("sha256", secret).update(body).digest("hex")}` },
      { nonce: "short" },
      { nonce: "with.a.dot.in.it" },
    ];
    const head = await headOf(id);
    const counted = await counting(async () => {
      for (const one of wrong) {
        const response = await post(bench.url, id, { body, secret, ...one });
        expect(response.status, JSON.stringify(one)).toBe(401);
        expect((await envelopeOf(response)).error.type).toBe("authentication_error");
      }
    });
    expect(counted).toEqual({ bad_signature: wrong.length });
    expect(await headOf(id)).toBe(head);
  });

  it("is signed as a whole: another body, time or nonce under the same signature is a 401", async () => {
    const { id } = await makeSession(bench);
    const { secret, run_id } = await register(bench.client, id);
    const [timestamp, nonce, body] = [now(), freshNonce(), said(run_id, custom("mine"))];
    const mac = createHmac("sha256", secret).update(`${timestamp}.${nonce}.${body}`).digest("hex");
    const signed = { body, secret, timestamp, nonce, signature: `v1=${mac}` };
    const head = await headOf(id);
    for (const changed of [
      { body: body.replace("mine", "yours") },
      { timestamp: timestamp + 1 },
      { nonce: freshNonce() },
    ])
      expect((await post(bench.url, id, { ...signed, ...changed })).status).toBe(401);
    const other = (await makeSession(bench)).id;
    await register(bench.client, other);
    expect((await post(bench.url, other, signed)).status).toBe(401);
    expect(await headOf(id)).toBe(head);
    expect((await post(bench.url, id, signed)).status).toBe(200);
  });

  it("from more than five minutes ago or ahead is a 401", async () => {
    const { id } = await makeSession(bench);
    const { secret, run_id } = await register(bench.client, id);
    const body = said(run_id, custom("late"));
    const head = await headOf(id);
    const counted = await counting(async () => {
      for (const away of [-310, 310, -86_400 * 365])
        expect((await post(bench.url, id, { body, secret, timestamp: now() + away })).status).toBe(401);
    });
    expect(counted).toEqual({ expired: 3 });
    expect(await headOf(id)).toBe(head);
    expect((await post(bench.url, id, { body, secret, timestamp: now() - 240 })).status).toBe(200);
  });

  it("appends nothing when replayed, and another one with its nonce is a 409", async () => {
    const { id } = await makeSession(bench);
    const { secret, run_id } = await register(bench.client, id);
    const nonce = freshNonce();
    const body = said(run_id, custom("once"));
    expect((await post(bench.url, id, { body, secret, nonce })).status).toBe(200);
    const head = await headOf(id);
    const counted = await counting(async () => {
      const again = await post(bench.url, id, { body, secret, nonce });
      expect(again.status).toBe(200);
      expect(await again.json()).toMatchObject({ accepted: 0, duplicate: true });
      const other = await post(bench.url, id, { body: said(run_id, custom("twice")), secret, nonce });
      expect(other.status).toBe(409);
      expect(other.headers.get("x-should-retry")).toBe("false");
      await envelopeOf(other);
    });
    expect(counted).toEqual({ replayed: 2 });
    expect(await headOf(id)).toBe(head);
  });

  it("sent many times at once is appended once", async () => {
    const { id } = await makeSession(bench);
    const { secret, run_id } = await register(bench.client, id);
    const [nonce, body] = [freshNonce(), said(run_id, custom("racing"))];
    const answers = await Promise.all(
      Array.from({ length: 16 }, async () => (await post(bench.url, id, { body, secret, nonce })).json()),
    );
    expect(answers.filter((answer) => (answer as { accepted: number }).accepted === 1)).toHaveLength(1);
    expect((await logOf(id)).filter(({ type }) => type === "custom")).toHaveLength(1);
  });

  it("of a replaced run is ignored", async () => {
    const { id } = await makeSession(bench);
    const first = await register(bench.client, id);
    const second = await register(bench.client, id);
    expect(second.run_id).not.toBe(first.run_id);
    const head = await headOf(id);
    const counted = await counting(async () => {
      const stale = await post(bench.url, id, {
        body: said(first.run_id, custom("old")),
        secret: first.secret,
      });
      expect(stale.status).toBe(200);
      expect(await stale.json()).toMatchObject({ accepted: 0, ignored: true });
    });
    expect(counted).toEqual({ stale_run: 1 });
    expect(await headOf(id)).toBe(head);
    const body = said(second.run_id, custom("new"));
    expect(await (await post(bench.url, id, { body, secret: second.secret })).json()).toMatchObject({
      accepted: 1,
    });
  });

  it("with invalid events is a 400 as a whole", async () => {
    const { id } = await makeSession(bench);
    const { secret, run_id } = await register(bench.client, id);
    const head = await headOf(id);
    const good = custom("good");
    for (const body of [
      "no JSON",
      said(run_id),
      said(run_id, good, { type: "turn.ended" }),
      said(run_id, good, custom("ag-ui.run", {})),
      said(run_id, good, { type: "error" }),
      JSON.stringify({ events: [good] }),
    ]) {
      const response = await post(bench.url, id, { body, secret });
      expect(response.status, body).toBe(400);
      await envelopeOf(response);
    }
    const huge = said(run_id, custom("huge", "x".repeat(1024 * 1024)));
    expect((await post(bench.url, id, { body: huge, secret })).status).toBe(413);
    expect(await headOf(id)).toBe(head);
  });

  it("needs a registration, and only the API key registers", async () => {
    const { id } = await makeSession(bench);
    const { secret } = await register(bench.client, (await makeSession(bench)).id);
    const body = said("run_x", custom("nobody"));
    expect((await post(bench.url, id, { body, secret })).status).toBe(401);
    expect((await post(bench.url, "sesn_none", { body, secret })).status).toBe(401);
    for (const path of [`/sessions/${id}/callbacks/register`, `/sessions/${id}/events`, `/sessions/${id}`])
      expect((await bench.raw("POST", path, { headers: { "anthropic-beta": BETA } })).status).toBe(401);
    for (const method of ["GET", "DELETE"])
      expect((await bench.raw(method, `/sessions/${id}/callbacks`, { headers: {} })).status).toBe(401);
  });

  it("ends with its session", async () => {
    const { id } = await makeSession(bench);
    const { secret, run_id } = await register(bench.client, id);
    await bench.beta.sessions.delete(id);
    expect((await post(bench.url, id, { body: said(run_id, custom("late")), secret })).status).toBe(401);
  });

  it("also works for a session of another dialect, and not for a later session with its id", async () => {
    const create = () => bench.test.engine.create("elsewhere", { agent: "scripted" });
    await create();
    const { secret, run_id } = await register(bench.client, "sesn_elsewhere");
    const body = said(run_id, custom("seen"));
    expect((await post(bench.url, "sesn_elsewhere", { body, secret })).status).toBe(200);
    await bench.test.engine.remove("elsewhere");
    await new Promise((resolve) => setTimeout(resolve, 5));
    await create();
    const stale = await post(bench.url, "sesn_elsewhere", { body, secret });
    expect(await stale.json()).toMatchObject({ accepted: 0, ignored: true });
    expect(await headOf("elsewhere")).toBe(0);
  });
});
