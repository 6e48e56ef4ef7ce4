import { EventEmitter } from "node:events";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { script as steps } from "../../support/engine.ts";
import { hear, named, next, openBench, PLACES, type SdkBench } from "../../sdk/bench.ts";

/** Section 3.1 to 3.3 of the page: run, executeCommand, events. */
describe.each(named(PLACES))("%s", (_name, place) => {
  let bench: SdkBench;
  beforeEach(async () => {
    bench = await openBench(place);
  });
  afterEach(() => bench.close());

  it("EV-01 EV-02 EV-03 EV-23 EV-24 EV-29: a run resolves with the CLI's output and emits its whole lifecycle", async () => {
    const sluice = bench.make();
    const heard = hear(sluice);
    expect(sluice.status()).toMatchObject({
      sandbox: "stopped",
      agent: "idle",
      hasRun: false,
      sandboxId: null,
    });
    expect(sluice.getSession()).toBeNull();
    const promise = sluice.run({ prompt: steps({ say: "hello" }, { stderr: "a warning" }) });
    expect(promise).toBeInstanceOf(Promise);
    const result = await promise;
    expect(Object.keys(result).toSorted()).toEqual(["exitCode", "sandboxId", "stderr", "stdout"]);
    expect(result.exitCode).toBe(0);
    expect(result.sandboxId).toBe(sluice.getSession());
    expect(heard.lifecycle.map(({ reason, sandbox, agent }) => `${reason} ${sandbox}/${agent}`)).toEqual([
      "sandbox_boot booting/idle",
      "sandbox_ready ready/idle",
      "run_start running/running",
      "run_complete ready/idle",
    ]);
    for (const event of heard.lifecycle) {
      expect(event.sandboxId).toBe(result.sandboxId);
      expect(new Date(event.timestamp).toISOString()).toBe(event.timestamp);
    }
    expect(heard.text()).toBe("hello");
    // The streamed output equals the returned output and is JSON Lines.
    expect(heard.stdout.join("")).toBe(result.stdout);
    expect(result.stdout.endsWith("\n")).toBe(true);
    for (const line of result.stdout.trimEnd().split("\n")) expect(JSON.parse(line)).toBeTypeOf("object");
    expect(heard.stderr.join("")).toBe(result.stderr);
    expect(result.stderr).toBe("a warning\n");
    expect(sluice.status()).toMatchObject({
      sandbox: "ready",
      agent: "idle",
      hasRun: true,
      activeProcessId: null,
    });
    const { timestamp } = sluice.status();
    expect(new Date(timestamp).toISOString()).toBe(timestamp);
  });

  it("EV-04: the default time limit is an hour, and a longer run ends with -1", async () => {
    const sluice = bench.make();
    const { sandboxId } = await sluice.run({ prompt: steps({ say: "x" }) });
    const started = (await bench.log(sandboxId)).find((event) => event.type === "turn.started");
    expect(started?.data).toMatchObject({ options: { timeoutMs: 3_600_000 } });
    const slow = await sluice.run({ prompt: steps({ sleep: 60_000 }), timeoutMs: 300 });
    expect(slow.exitCode).toBe(-1);
    expect(slow.stderr).toContain("longer than its limit");
    expect(sluice.status().agent).toBe("error");
    expect((await sluice.run({ prompt: steps({ say: "on" }) })).exitCode).toBe(0);
  });

  it("EV-06 EV-08 EV-61: in the background it resolves while the agent runs, and its end is one event", async () => {
    const sluice = bench.make();
    const heard = hear(sluice);
    const done = next(sluice, "run_background_complete");
    const result = await sluice.run({
      prompt: steps({ shell: "until [ -e go ]; do sleep 0.02; done" }),
      background: true,
    });
    expect(result).toMatchObject({ exitCode: 0, sandboxId: sluice.getSession(), stderr: "" });
    const running = sluice.status();
    expect(running).toMatchObject({ sandbox: "running", agent: "running" });
    expect(running.activeProcessId).toBeTypeOf("string");
    expect(result.stdout).toContain(running.activeProcessId);
    await sluice.uploadFiles({ go: "" });
    await done;
    expect(sluice.status()).toMatchObject({ sandbox: "ready", agent: "idle", activeProcessId: null });
    expect(heard.reasons().filter((reason) => reason.startsWith("run_"))).toEqual([
      "run_start",
      "run_background_complete",
    ]);
  });

  it("EV-07: a failing one in the background is run_background_failed, and the next run works", async () => {
    const sluice = bench.make();
    const failed = next(sluice, "run_background_failed");
    await sluice.run({ prompt: steps({ exit: 3 }), background: true });
    await failed;
    expect(sluice.status().agent).toBe("error");
    expect((await sluice.run({ prompt: steps({ say: "again" }) })).exitCode).toBe(0);
  });

  it("EV-48: a dead agent gives its exit code and its stderr", async () => {
    const sluice = bench.make();
    const heard = hear(sluice);
    const result = await sluice.run({ prompt: steps({ say: "one" }, { stderr: "it broke" }, { exit: 3 }) });
    expect(result.exitCode).toBe(3);
    expect(result.stderr).toContain("it broke");
    expect(heard.reasons().at(-1)).toBe("run_failed");
    expect(heard.text()).toBe("one");
  });

  it("EV-14: a second run continues the conversation by the agent's own id", async () => {
    const sluice = bench.make();
    const heard = hear(sluice);
    await sluice.run({ prompt: "remember the word heron" });
    const { sandboxId } = await sluice.run({ prompt: steps({ exit: 1 }) });
    heard.content.length = 0;
    await sluice.run({ prompt: steps({ say: "$history" }) });
    expect(heard.text()).toContain("remember the word heron");
    const starts = (await bench.log(sandboxId)).filter((event) => event.type === "process.started");
    const first = (await bench.log(sandboxId)).find((event) => event.native_session_id !== undefined);
    expect(starts.map(({ data }) => data.resumed)).toEqual([undefined, first?.native_session_id]);
  });

  it("EV-15 EV-17: a refused call does not disturb the active run", async () => {
    const sluice = bench.make();
    const busy = { code: "session_busy" };
    const run = sluice.run({
      prompt: steps({ shell: "until [ -e go ]; do sleep 0.02; done" }, { say: "whole" }),
    });
    await next(sluice, "run_start");
    await expect(sluice.run({ prompt: "x" })).rejects.toMatchObject(busy);
    await expect(sluice.executeCommand("true")).rejects.toMatchObject(busy);
    await sluice.uploadFiles({ go: "" });
    expect((await run).exitCode).toBe(0);
    const command = sluice.executeCommand("until [ -e on ]; do sleep 0.02; done; echo whole");
    await next(sluice, "command_start");
    await expect(sluice.run({ prompt: "x" })).rejects.toMatchObject(busy);
    await expect(sluice.executeCommand("true")).rejects.toMatchObject(busy);
    await sluice.uploadFiles({ on: "" });
    expect((await command).stdout).toBe("whole\n");
  });

  it("EV-18 EV-19 EV-25: a command runs in the workspace; its failure is an exit code, its output streams", async () => {
    const sluice = bench.make();
    const heard = hear(sluice);
    const result = await sluice.executeCommand("pwd; ls; echo oops >&2; exit 3");
    expect(result.exitCode).toBe(3);
    if (place.sandbox === "bwrap") expect(result.stdout).toMatch(/^\/home\/user\/workspace\n/);
    expect(result.stdout).toContain("output\n");
    expect(result.stderr).toBe("oops\n");
    expect(heard.stdout.join("")).toBe(result.stdout);
    expect(heard.stderr.join("")).toBe(result.stderr);
    expect(heard.content).toEqual([]);
    expect(heard.reasons()).toEqual(["sandbox_boot", "sandbox_ready", "command_start", "command_failed"]);
    expect(sluice.status()).toMatchObject({ hasRun: false });
    const started = (await bench.log(result.sandboxId)).find((event) => event.type === "command.started");
    expect(started?.data).toMatchObject({ timeout_ms: 3_600_000 });
    expect((await sluice.executeCommand("sleep 60", { timeoutMs: 200 })).exitCode).toBe(-1);
    expect(heard.reasons().at(-1)).toBe("command_failed");
  });

  it("EV-20: a background command emits its end, with success or failure", async () => {
    const sluice = bench.make();
    const done = next(sluice, "command_background_complete");
    expect(await sluice.executeCommand("sleep 0.2; echo x", { background: true })).toMatchObject({
      exitCode: 0,
    });
    await done;
    const failed = next(sluice, "command_background_failed");
    await sluice.executeCommand("sleep 0.1; exit 2", { background: true });
    await failed;
    expect(sluice.status()).toMatchObject({ sandbox: "ready", agent: "error" });
  });

  it("EV-21: it is an EventEmitter", () => {
    const sluice = bench.make();
    const heard: unknown[] = [];
    const listener = (event: unknown): void => void heard.push(event);
    expect(sluice).toBeInstanceOf(EventEmitter);
    for (const name of ["content", "lifecycle", "stdout", "stderr"] as const) {
      sluice.on(name, listener).once(name, listener);
      expect(sluice.listenerCount(name)).toBe(2);
      sluice.off(name, listener).off(name, listener);
      expect(sluice.listenerCount(name)).toBe(0);
    }
  });

  it("EV-30: every reason comes at its time", async () => {
    const sluice = bench.make();
    const heard = hear(sluice);
    await sluice.run({ prompt: steps({ say: "x" }) });
    await sluice.run({ prompt: steps({ exit: 1 }) });
    await sluice.run({ prompt: steps({ sleep: 60_000 }), background: true });
    expect(await sluice.interrupt()).toBe(true);
    let done = next(sluice, "run_background_complete");
    await sluice.run({ prompt: steps({ say: "x" }), background: true });
    await done;
    done = next(sluice, "run_background_failed");
    await sluice.run({ prompt: steps({ exit: 1 }), background: true });
    await done;
    await sluice.executeCommand("true");
    await sluice.executeCommand("false");
    await sluice.executeCommand("sleep 60", { background: true });
    expect(await sluice.interrupt()).toBe(true);
    done = next(sluice, "command_background_complete");
    await sluice.executeCommand("true", { background: true });
    await done;
    done = next(sluice, "command_background_failed");
    await sluice.executeCommand("false", { background: true });
    await done;
    await sluice.pause();
    await sluice.resume();
    const other = bench.make().withSession(sluice.getSession() ?? "");
    const joined = hear(other);
    await other.executeCommand("true");
    expect(joined.reasons()[0]).toBe("sandbox_connected");
    await sluice.kill();
    // The events of the other instance in the same sandbox are emitted here too.
    expect(heard.reasons()).toEqual([
      "sandbox_boot",
      "sandbox_ready",
      "run_start",
      "run_complete",
      "run_start",
      "run_failed",
      "run_start",
      "run_interrupted",
      "run_start",
      "run_background_complete",
      "run_start",
      "run_background_failed",
      "command_start",
      "command_complete",
      "command_start",
      "command_failed",
      "command_start",
      "command_interrupted",
      "command_start",
      "command_background_complete",
      "command_start",
      "command_background_failed",
      "sandbox_pause",
      "sandbox_resume",
      "command_start",
      "command_complete",
      "sandbox_killed",
    ]);
  });

  it("EV-27: a throwing listener affects no other, and its error is reported", async () => {
    const sluice = bench.make();
    const errors: string[] = [];
    sluice.on("error", (error) => errors.push(error.message));
    sluice.on("content", () => {
      throw new Error("mine");
    });
    sluice.on("lifecycle", async () => Promise.reject(new Error("later")));
    const heard = hear(sluice);
    expect((await sluice.run({ prompt: steps({ say: "one two" }) })).exitCode).toBe(0);
    expect(heard.text()).toBe("one two");
    expect(errors.filter((message) => message === "mine")).toHaveLength(2);
    expect(errors).toContain("later");
  });
});
