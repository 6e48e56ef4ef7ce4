import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Sluice } from "../../../src/sdk/index.ts";
import { script as steps } from "../../support/engine.ts";
import { freePort } from "../../support/server.ts";
import { hear, named, next, openBench, PLACES, type SdkBench } from "../../sdk/bench.ts";

const history = async (sluice: Sluice): Promise<string> => {
  const heard = hear(sluice);
  await sluice.run({ prompt: steps({ say: "$history" }) });
  return heard.text();
};

/** Sections 3.6 and 3.7 of the page: session controls, checkpoints, ports. */
describe.each(named(PLACES))("%s", (_name, place) => {
  let bench: SdkBench;
  beforeEach(async () => {
    bench = await openBench(place);
  });
  afterEach(() => bench.close());

  it("EV-60 EV-66: kill destroys the sandbox, and the next run creates an empty one", async () => {
    const sluice = bench.make();
    const heard = hear(sluice);
    await sluice.run({ prompt: "the word is heron" });
    const first = sluice.getSession();
    await sluice.kill();
    expect(sluice.getSession()).toBeNull();
    expect(sluice.status()).toMatchObject({
      sandbox: "stopped",
      agent: "idle",
      hasRun: false,
      sandboxId: null,
    });
    expect(heard.reasons().at(-1)).toBe("sandbox_killed");
    const sandboxes = await readdir(join(bench.folder, "data/sandboxes")).catch(() => []);
    expect(sandboxes).toEqual([]);
    await sluice.run({ prompt: "another" });
    expect(sluice.getSession()).not.toBe(first);
    expect(sluice.status().hasRun).toBe(true);
    expect(await history(sluice)).not.toContain("heron");
    // The log of the first one stays.
    expect((await bench.log(first ?? "")).at(-1)?.type).toBe("session.ended");
  });

  it("kill ends the active run, which resolves as interrupted", async () => {
    const sluice = bench.make();
    const run = sluice.run({ prompt: steps({ sleep: 60_000 }) });
    await next(sluice, "run_start");
    await sluice.kill();
    expect((await run).exitCode).toBe(130);
    await sluice.kill();
  });

  it("EV-62: interrupt ends a run or a command, and the sandbox stays", async () => {
    const sluice = bench.make();
    const heard = hear(sluice);
    const run = sluice.run({ prompt: steps({ sleep: 60_000 }) });
    await next(sluice, "run_start");
    expect(await sluice.interrupt()).toBe(true);
    expect((await run).exitCode).toBe(130);
    expect(sluice.status()).toMatchObject({ sandbox: "ready", agent: "interrupted" });
    const command = sluice.executeCommand("echo $$ > pid; sleep 60");
    await next(sluice, "command_start");
    expect(await sluice.interrupt()).toBe(true);
    expect((await command).exitCode).toBe(130);
    expect(heard.reasons().filter((reason) => reason.endsWith("_interrupted"))).toEqual([
      "run_interrupted",
      "command_interrupted",
    ]);
    expect((await sluice.executeCommand("echo alive")).stdout).toBe("alive\n");
  });

  it("EV-63: interrupt returns false if nothing runs", async () => {
    const sluice = bench.make();
    expect(await sluice.interrupt()).toBe(false);
    await sluice.run({ prompt: steps({ say: "x" }) });
    expect(await sluice.interrupt()).toBe(false);
  });

  it("EV-64: the page's steering example, word for word", async () => {
    const sluice = bench.make();
    const heard = hear(sluice);
    void sluice.run({ prompt: "Do a full migration plan", background: true });
    await sluice.interrupt();
    await sluice.run({ prompt: "Change direction: only auth migration." });
    expect(heard.reasons().filter((reason) => reason.startsWith("run_"))).toEqual([
      "run_start",
      expect.stringMatching(/^run_(interrupted|background_complete)$/) as unknown,
      "run_start",
      "run_complete",
    ]);
    expect(await history(sluice)).toContain(
      "Do a full migration plan\nChange direction: only auth migration.",
    );
    const events = await bench.log(sluice.getSession() ?? "");
    const natives = events.flatMap((event) => event.native_session_id ?? []);
    expect(new Set(natives).size).toBe(1);
  });

  it("EV-65: pause and resume keep files and conversation", async () => {
    const sluice = bench.make();
    const heard = hear(sluice);
    await sluice.run({ prompt: "the word is heron" });
    await sluice.executeCommand("echo kept > kept.txt");
    await sluice.pause();
    expect(sluice.status().sandbox).toBe("paused");
    await sluice.resume();
    expect(sluice.status().sandbox).toBe("ready");
    expect(heard.reasons().slice(-2)).toEqual(["sandbox_pause", "sandbox_resume"]);
    expect((await sluice.executeCommand("cat kept.txt")).stdout).toBe("kept\n");
    expect(await history(sluice)).toContain("heron");
    // The active run is interrupted first; a run in a paused sandbox resumes it.
    const run = sluice.run({ prompt: steps({ sleep: 60_000 }) });
    await next(sluice, "run_start");
    await sluice.pause();
    expect((await run).exitCode).toBe(130);
    expect((await sluice.run({ prompt: steps({ say: "x" }) })).exitCode).toBe(0);
    expect(heard.reasons().slice(-5)).toEqual([
      "run_interrupted",
      "sandbox_pause",
      "sandbox_resume",
      "run_start",
      "run_complete",
    ]);
  });

  it("EV-67 EV-69: setSession and withSession join a sandbox with the next run and continue there", async () => {
    const first = bench.make();
    await first.run({ prompt: "the word is heron" });
    const id = first.getSession() ?? "";
    const second = bench.make().withContext({ "mine.txt": "x" });
    const heard = hear(second);
    await second.run({ prompt: "the word is crane" });
    const own = second.getSession() ?? "";
    const run = second.run({ prompt: steps({ sleep: 60_000 }) });
    await next(second, "run_start");
    await second.setSession(id);
    expect((await run).exitCode).toBe(130);
    expect(second.status()).toMatchObject({
      sandboxId: id,
      sandbox: "ready",
      agent: "idle",
      activeProcessId: null,
    });
    expect(heard.reasons().at(-1)).toBe("run_interrupted");
    expect(await history(second)).toMatch(/^the word is heron/);
    expect(heard.reasons().slice(-3)).toEqual(["sandbox_connected", "run_start", "run_complete"]);
    // Set-up is for new sandboxes.
    expect((await second.executeCommand("ls context")).stdout).toBe("");
    const third = bench.make().withSession(own);
    expect(third.getSession()).toBe(own);
    const joined = hear(third);
    expect(await history(third)).toContain("crane");
    expect(joined.reasons()).toEqual(["sandbox_connected", "run_start", "run_complete"]);
    await third.kill();
  });

  it("an unknown sandbox is an error, and none is created", async () => {
    const sluice = bench.make().withSession("ses_nowhere");
    const heard = hear(sluice);
    await expect(sluice.run({ prompt: "x" })).rejects.toMatchObject({ code: "session_not_found" });
    expect(heard.reasons()).toEqual(["sandbox_error"]);
    expect(sluice.status().sandbox).toBe("error");
  });

  it("EV-02 EV-13 EV-70 EV-71 EV-72: checkpoints of runs that succeed, with comment and lineage", async () => {
    const sluice = bench.make().withStorage(await bench.temporary());
    await expect(sluice.checkpoint()).rejects.toThrow(/there is no sandbox yet/);
    expect(await sluice.listCheckpoints()).toEqual([]);
    const one = await sluice.run({
      prompt: steps({ write: { path: "a.txt", content: "1" } }),
      checkpointComment: "after analysis",
    });
    expect(one.checkpoint).toMatchObject({ comment: "after analysis", agentType: "scripted" });
    const two = await sluice.run({ prompt: steps({ write: { path: "a.txt", content: "2" } }) });
    expect(two.checkpoint?.parentId).toBe(one.checkpoint?.id);
    const failed = await sluice.run({ prompt: steps({ exit: 1 }) });
    expect(failed).not.toHaveProperty("checkpoint");
    const explicit = await sluice.checkpoint({ comment: "before refactor" });
    expect(explicit).toMatchObject({ comment: "before refactor", parentId: two.checkpoint?.id });
    const list = await sluice.listCheckpoints({ limit: 2 });
    expect(list).toEqual([explicit, two.checkpoint]);
    expect(new Date(explicit.timestamp).toISOString()).toBe(explicit.timestamp);
    // A background run gets its checkpoint too.
    const done = next(sluice, "run_background_complete");
    expect(await sluice.run({ prompt: steps({ say: "x" }), background: true })).not.toHaveProperty(
      "checkpoint",
    );
    await done;
    expect(await sluice.listCheckpoints()).toHaveLength(4);
  });

  it("EV-09 EV-10: a run from a checkpoint has its files and its conversation in a new sandbox", async () => {
    const storage = await bench.temporary();
    const sluice = bench.make().withStorage(storage);
    await expect(sluice.run({ prompt: "x", from: "latest" })).rejects.toThrow(/No checkpoints found/);
    expect(sluice.getSession()).toBeNull();
    const one = await sluice.run({ prompt: steps({ write: { path: "a.txt", content: "1" } }) });
    await sluice.run({
      prompt: steps({ write: { path: "a.txt", content: "2" } }, { write: { path: "b.txt", content: "2" } }),
    });
    const branch = await sluice.run({
      prompt: steps({ shell: "cat *.txt" }),
      from: one.checkpoint?.id ?? "",
    });
    expect(branch.sandboxId).not.toBe(one.sandboxId);
    expect(branch.sandboxId).toBe(sluice.getSession());
    expect(branch.checkpoint?.parentId).toBe(one.checkpoint?.id);
    expect((await sluice.executeCommand("cat *.txt")).stdout).toBe("1");
    const other = bench.make().withStorage({ path: storage });
    const latest = await other.run({ prompt: steps({ say: "$history" }), from: "latest" });
    expect(latest.exitCode).toBe(0);
    expect((await other.executeCommand("cat *.txt")).stdout).toBe("1");
    await expect(other.run({ prompt: "x", from: "ckpt_nope" })).rejects.toMatchObject({
      code: "checkpoint_not_found",
    });
    // Another storage has other checkpoints.
    expect(
      await bench
        .make()
        .withStorage(await bench.temporary())
        .listCheckpoints(),
    ).toEqual([]);
  });

  it("EV-11 EV-12 EV-13: calls that need a storage fail before they create anything", async () => {
    const sluice = bench.make();
    await expect(sluice.run({ prompt: "x", from: "latest" })).rejects.toThrow(/withStorage/);
    await expect(sluice.run({ prompt: "x", checkpointComment: "c" })).rejects.toThrow(/withStorage/);
    await expect(sluice.checkpoint()).rejects.toThrow(/withStorage/);
    await expect(sluice.listCheckpoints()).rejects.toThrow(/withStorage/);
    const given = bench
      .make()
      .withStorage(await bench.temporary())
      .withSession("ses_x");
    await expect(given.run({ prompt: "x", from: "latest" })).rejects.toThrow(/withSession/);
    expect(sluice.getSession()).toBeNull();
  });

  it("EV-74: a port of the sandbox has an address", async () => {
    const sluice = bench.make();
    const port = await freePort();
    const program = `require("http").createServer((_, r) => r.end("from inside")).listen(${port}, "127.0.0.1", () => console.log("up"))`;
    await sluice.uploadFiles({ "server.cjs": program });
    const up = new Promise<void>((resolve) =>
      sluice.on("stdout", (chunk) => chunk.includes("up") && resolve()),
    );
    await sluice.executeCommand(`${process.execPath} server.cjs`, { background: true });
    await up;
    const url = await sluice.getHost(port);
    expect(await (await fetch(url)).text()).toBe("from inside");
    expect(await sluice.interrupt()).toBe(true);
  });
});
