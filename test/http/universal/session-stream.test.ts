import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createClient } from "../../../src/client/index.ts";
import type { SessionFrame } from "../../../src/contract/index.ts";
import { createSqliteLog } from "../../../src/log/index.ts";
import { runTurn, say, script, SCRIPTED, waitFor } from "../../support/engine.ts";
import { openApp, type AppBench } from "../app-bench.ts";
import { SseReader } from "../sse-reader.ts";

/** One reader of the list, with its frames so far. */
class Watcher {
  readonly frames: SessionFrame[] = [];
  readonly #stop = new AbortController();
  #waiting: (() => void)[] = [];
  readonly done: Promise<void>;

  constructor(url: string, filter: Record<string, unknown> = {}, token?: string) {
    this.done = this.#run(url, filter, token);
  }

  async #run(url: string, filter: Record<string, unknown>, token?: string): Promise<void> {
    const client = createClient({ url, token });
    for await (const frame of client.sessions.watch({ ...filter, signal: this.#stop.signal })) {
      this.frames.push(frame);
      for (const wake of this.#waiting.splice(0)) wake();
    }
  }

  async until(isThere: (frames: readonly SessionFrame[]) => boolean): Promise<void> {
    while (!isThere(this.frames)) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  ready(): Promise<void> {
    return this.until((frames) => frames.some(({ type }) => type === "ready"));
  }

  /** The list as the frames so far make it: id and status. */
  list(): Record<string, string> {
    const list: Record<string, string> = {};
    for (const { type, data } of this.frames) {
      if (type === "session") list[data.sessionId] = data.status;
      if (type === "removed") delete list[data.sessionId];
    }
    return list;
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.done;
  }
}

describe("the live list of sessions", () => {
  let bench: AppBench;
  beforeAll(async () => void (bench = await openApp()));
  afterAll(() => bench.close());

  it("begins with all sessions and tells creation, status, title and removal", async () => {
    const { engine, log } = bench.test;
    await engine.create("old", { ...SCRIPTED, title: "the first" });
    const watcher = new Watcher(bench.url);
    await watcher.ready();
    expect(watcher.list()).toEqual({ old: "idle" });

    await engine.create("new", SCRIPTED);
    await watcher.until(() => "new" in watcher.list());
    await say(engine, "new", script({ say: "hello there" }, { ask: { shell: "true" } }));
    await watcher.until(() => watcher.list()["new"] === "waiting");
    const entry = watcher.frames.findLast(({ type }) => type === "session")?.data;
    expect(entry).toMatchObject({
      sessionId: "new",
      turns: 1,
      words: "hello there",
      pendingActions: [{ kind: "permission" }],
    });
    const { data } = await waitFor(log, "new", "permission.requested");
    await engine.resolvePermission("new", data.permission_id, { reply: "once" });
    await watcher.until(() => watcher.list()["new"] === "idle");
    await engine.update("old", { title: "renamed" });
    await watcher.until((frames) =>
      frames.some(({ type, data }) => type === "session" && data.title === "renamed"),
    );
    await engine.remove("new");
    await watcher.until((frames) => frames.some(({ type }) => type === "removed"));
    expect(watcher.frames.at(-1)).toEqual({ type: "removed", data: { sessionId: "new", reason: "deleted" } });
    expect(watcher.list()).toEqual({ old: "idle" });
    await watcher.stop();
    await engine.remove("old");
  });

  it("shows what fits the filters, and tells when a session no longer fits", async () => {
    const { engine, log } = bench.test;
    await engine.create("quiet", SCRIPTED);
    await engine.create("busy", { ...SCRIPTED, title: "Checkout" });
    const waiting = new Watcher(bench.url, { status: ["waiting"] });
    const named = new Watcher(bench.url, { text: "check" });
    const other = new Watcher(bench.url, { agent: "claude" });
    await Promise.all([waiting.ready(), named.ready(), other.ready()]);
    expect([waiting.list(), named.list(), other.list()]).toEqual([{}, { busy: "idle" }, {}]);
    await say(engine, "busy", script({ ask: { shell: "true" } }));
    await waiting.until(() => waiting.list()["busy"] === "waiting");
    const { data } = await waitFor(log, "busy", "permission.requested");
    await engine.resolvePermission("busy", data.permission_id, { reply: "once" });
    await waiting.until((frames) => frames.at(-1)?.type === "removed");
    expect(waiting.frames.at(-1)?.data).toEqual({ sessionId: "busy", reason: "filtered" });
    expect(other.frames.map(({ type }) => type)).toEqual(["ready"]);
    await Promise.all([waiting.stop(), named.stop(), other.stop()]);
    await engine.remove("busy");
    await engine.remove("quiet");
  });

  it("tells what another process on the same folder has changed", async () => {
    const watcher = new Watcher(bench.url);
    await watcher.ready();
    const other = createSqliteLog({ folder: bench.test.folder });
    await other.create({ id: "elsewhere", spec: SCRIPTED, owner: "other", time: Date.now() });
    await watcher.until(() => "elsewhere" in watcher.list());
    await other.remove("elsewhere");
    await watcher.until((frames) => frames.at(-1)?.type === "removed");
    expect(watcher.list()).toEqual({});
    await other.close();
    await watcher.stop();
  });

  it("refuses a status that does not exist", async () => {
    expect((await bench.call("GET", "/v1/sessions/sse?status=__proto__")).status).toBe(400);
  });

  it("serves 64 readers and one that never reads", async () => {
    const { engine } = bench.test;
    const ids = Array.from({ length: 20 }, (_, index) => `many-${index}`);
    for (const id of ids) await engine.create(id, { ...SCRIPTED, title: "x".repeat(60_000) });
    const stuck = await SseReader.open(`${bench.url}/v1/sessions/sse`);
    stuck.response.pause();
    const watchers = Array.from({ length: 64 }, () => new Watcher(bench.url));
    await Promise.all(watchers.map((watcher) => watcher.ready()));
    await runTurn(bench.test, "many-3", script({ say: "hi" }));
    await engine.remove("many-7");
    await Promise.all(
      watchers.map((watcher) =>
        watcher.until(() => !("many-7" in watcher.list()) && watcher.frames.some(isSpoken)),
      ),
    );
    for (const watcher of watchers)
      expect(Object.keys(watcher.list()).toSorted()).toEqual(ids.filter((id) => id !== "many-7").toSorted());
    // The stuck reader catches up when it reads, with the state of then.
    stuck.response.resume();
    await stuck.until((text) => text.includes("event: ready") && text.includes('"words":"hi"'));
    stuck.response.destroy();
    await Promise.all(watchers.map((watcher) => watcher.stop()));
    for (const id of ids) if (id !== "many-7") await engine.remove(id);
  });
});

function isSpoken({ type, data }: SessionFrame): boolean {
  return type === "session" && data.words === "hi";
}

describe("the live list of a tenant", () => {
  const workspaces = { "key-of-ann-1234": "ann", "key-of-bob-1234": "bob" };
  let bench: AppBench;
  beforeAll(async () => void (bench = await openApp({ token: "operator-token", workspaces })));
  afterAll(() => bench.close());

  it("has its own sessions alone, also when another tenant takes an id", async () => {
    const { engine } = bench.test;
    await engine.create("ours", SCRIPTED, { tenant: "ann" });
    await engine.create("theirs", SCRIPTED, { tenant: "bob" });
    const ann = new Watcher(bench.url, {}, "key-of-ann-1234");
    const bob = new Watcher(bench.url, {}, "key-of-bob-1234");
    const all = new Watcher(bench.url, {}, "operator-token");
    await Promise.all([ann.ready(), bob.ready(), all.ready()]);
    expect([ann.list(), bob.list()]).toEqual([{ ours: "idle" }, { theirs: "idle" }]);
    expect(all.list()).toEqual({ ours: "idle", theirs: "idle" });
    await engine.remove("ours");
    await engine.create("ours", SCRIPTED, { tenant: "bob" });
    await bob.until(() => "ours" in bob.list());
    await ann.until(() => !("ours" in ann.list()));
    expect(ann.frames.at(-1)).toEqual({ type: "removed", data: { sessionId: "ours", reason: "deleted" } });
    expect(JSON.stringify(ann.frames)).not.toContain("theirs");
    await Promise.all([ann.stop(), bob.stop(), all.stop()]);
  });

  it("needs a token", async () => {
    expect((await bench.call("GET", "/v1/sessions/sse")).status).toBe(401);
  });
});
