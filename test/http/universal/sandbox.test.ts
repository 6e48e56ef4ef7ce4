import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createClient, type SluiceClient } from "../../../src/client/index.ts";
import { Checkpoint, CheckpointList } from "../../../src/contract/responses.ts";
import { ofType, readAll, runTurn, say, script, waitFor } from "../../support/engine.ts";
import { expectLawful } from "../../support/laws.ts";
import { type AppBench, codeOf, openApp, problemOf } from "../app-bench.ts";

const TOKEN = "a-token-that-no-program-may-see";

let bench: AppBench;

let client: SluiceClient;

beforeAll(async () => {
  bench = await openApp({ token: TOKEN });
  client = createClient({ url: bench.url, token: TOKEN });
});

afterAll(() => bench.close());

const call = (method: string, path: string, json?: unknown): Promise<Response> =>
  bench.call(method, `/v1/sessions/${path}`, {
    headers: { authorization: `Bearer ${TOKEN}` },
    ...(json === undefined ? {} : { json }),
  });

describe("pause and resume", () => {
  it("suspend a turn and continue it", async () => {
    await client.sessions.create("paused", { agent: "scripted" });
    const loop = "for i in 1 2 3 4 5 6 7 8 9 10; do echo $i; sleep 0.05; done";
    await client.sendMessage("paused", script({ shell: loop }));
    await waitFor(bench.test.log, "paused", "item.delta");
    expect((await call("POST", "paused/pause")).status).toBe(204);
    expect((await client.sessions.get("paused")).paused).toBe(true);
    expect((await call("POST", "paused/pause")).status).toBe(204);
    const { turnId } = await client.sendMessage("paused", script({ say: "later" }));
    expect(ofType(await readAll(bench.test.log, "paused"), "turn.ended")).toEqual([]);
    expect((await call("POST", "paused/resume")).status).toBe(204);
    const isLast = { where: (event: { data: { turn_id: string } }) => event.data.turn_id === turnId };
    const end = await waitFor(bench.test.log, "paused", "turn.ended", isLast);
    expect(end.data.status).toBe("completed");
    expect((await client.sessions.get("paused")).paused).toBe(false);
    expectLawful(await readAll(bench.test.log, "paused"));
  });

  it("refuse an unknown or ended session", async () => {
    const missing = await call("POST", "nobody/pause");
    expect([missing.status, await codeOf(missing)]).toEqual([404, "session_not_found"]);
    await client.sessions.create("over", { agent: "scripted" });
    await client.terminate("over");
    const ended = await call("POST", "over/pause");
    expect([ended.status, await codeOf(ended)]).toEqual([409, "session_ended"]);
  });
});

describe("checkpoints", () => {
  it("are created, listed newest first and restored", async () => {
    await client.sessions.create("kept", { agent: "scripted" });
    await client.fs.write("kept", "a.txt", "first");
    const first = Checkpoint.parse(await (await call("POST", "kept/checkpoints", { comment: "one" })).json());
    expect(first).toMatchObject({ comment: "one", sessionId: "kept", agentType: "scripted" });
    await client.fs.write("kept", "a.txt", "second");
    await client.fs.write("kept", "new folder/b.txt", "b");
    const second = await client.checkpoints.create("kept");
    expect(second.parentId).toBe(first.id);
    expect(second.hash).not.toBe(first.hash);

    const list = CheckpointList.parse(await (await call("GET", "kept/checkpoints")).json());
    expect(list.checkpoints.map(({ id }) => id)).toEqual([second.id, first.id]);
    expect((await client.checkpoints.list("kept", { limit: 1 })).map(({ id }) => id)).toEqual([second.id]);
    expect((await call("GET", "kept/checkpoints?limit=0")).status).toBe(400);

    expect(await client.checkpoints.restore("kept", first.id)).toMatchObject({ id: first.id });
    expect(await text("kept", "a.txt")).toBe("first");
    await expect(client.fs.stat("kept", "new folder")).rejects.toMatchObject({ code: "file_not_found" });
    expect((await client.checkpoints.restore("kept", "latest")).id).toBe(second.id);
    expect(await text("kept", "new folder/b.txt")).toBe("b");
    const events = await readAll(bench.test.log, "kept");
    expect(ofType(events, "checkpoint.created").map(({ data }) => data.checkpoint_id)).toEqual([
      first.id,
      second.id,
    ]);
    expect(ofType(events, "checkpoint.restored")).toHaveLength(2);
    expectLawful(events);
  });

  it("restored into another session include its agent's memory", async () => {
    await client.sessions.create("one", { agent: "scripted" });
    await runTurn(bench.test, "one", script({ write: { path: "plan.md", content: "pears" } }));
    await runTurn(bench.test, "one", "the answer is quince");
    const { id, nativeSessionId } = await client.checkpoints.create("one");
    await runTurn(bench.test, "one", "said too late to be kept");

    await client.sessions.create("two", { agent: "scripted" });
    await client.checkpoints.restore("two", id);
    expect(await text("two", "plan.md")).toBe("pears");
    const { after } = await say(bench.test.engine, "two", script({ say: "$history" }));
    await waitFor(bench.test.log, "two", "turn.ended", { after });
    const events = await readAll(bench.test.log, "two");
    const said = ofType(events, "item.completed").findLast(({ data }) => data.item.role === "assistant");
    expect(JSON.stringify(said?.data.item.content)).toContain("the answer is quince");
    expect(JSON.stringify(events)).not.toContain("said too late");
    expect((await client.sessions.get("two")).nativeSessionId).toBe(nativeSessionId);
    expectLawful(events);
    // The first session is unchanged.
    const end = await runTurn(bench.test, "one", script({ say: "$history" }));
    expect(end.data.status).toBe("completed");
    expect(JSON.stringify(await readAll(bench.test.log, "one"))).toContain("said too late");
  });

  it("that do not exist are a 404, also in a session without any", async () => {
    await client.sessions.create("empty", { agent: "scripted" });
    for (const checkpoint of ["ckpt_nothing", "latest", "../../etc/passwd"]) {
      const response = await call("POST", "empty/restore", { checkpoint });
      expect([response.status, await codeOf(response)]).toEqual([404, "checkpoint_not_found"]);
    }
    expect((await call("POST", "empty/restore", {})).status).toBe(400);
    expect((await call("POST", "empty/restore", { checkpoint: "latest", force: true })).status).toBe(400);
    expect((await call("GET", "nobody/checkpoints")).status).toBe(404);
    expect((await call("POST", "nobody/checkpoints", {})).status).toBe(404);
  });

  it("are refused during a turn with a 409 that names the reason", async () => {
    await client.sessions.create("busy", { agent: "scripted" });
    const kept = await client.checkpoints.create("busy");
    await client.sendMessage("busy", script({ sleep: 60_000 }));
    await waitFor(bench.test.log, "busy", "turn.started");
    for (const response of [
      await call("POST", "busy/checkpoints", {}),
      await call("POST", "busy/restore", { checkpoint: kept.id }),
    ]) {
      const problem = await problemOf(response);
      expect([problem.status, problem.type]).toEqual([409, "urn:sluice:error:session_busy"]);
      expect(problem.detail).toContain("wait for its end, or interrupt it");
    }
    await client.interrupt("busy");
    expect((await client.checkpoints.restore("busy", kept.id)).id).toBe(kept.id);
  });
});

async function text(session: string, path: string): Promise<string> {
  return new TextDecoder().decode(await client.fs.read(session, path));
}
