import { statSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { StreamedEvent } from "../../src/sdk/index.ts";
import { script as steps } from "../support/engine.ts";
import { CORNERS, hear, named, next, openBench, type SdkBench } from "./bench.ts";

/** The weaknesses of the SDK that the page describes, as requirements for this one. */
describe.each(named(CORNERS))("%s", (_name, place) => {
  let bench: SdkBench;
  beforeEach(async () => {
    bench = await openBench(place);
  });
  afterEach(() => bench.close());

  const sandboxes = (): Promise<string[]> => readdir(join(bench.folder, "data/sandboxes")).catch(() => []);

  it("1: two calls in one tick on a new instance: one runs, and one sandbox is created", async () => {
    const sluice = bench.make();
    const heard = hear(sluice);
    const calls = [
      sluice.run({ prompt: steps({ say: "one" }) }),
      sluice.run({ prompt: steps({ say: "two" }) }),
      sluice.executeCommand("true"),
    ];
    const [first, second, third] = await Promise.allSettled(calls);
    expect(first).toMatchObject({ status: "fulfilled", value: { exitCode: 0 } });
    for (const refused of [second, third])
      expect(refused).toMatchObject({ status: "rejected", reason: { code: "session_busy" } });
    expect(heard.reasons()).toEqual(["sandbox_boot", "sandbox_ready", "run_start", "run_complete"]);
    expect(await sandboxes()).toHaveLength(1);
    await Promise.all([sluice.uploadFiles({ a: "1" }), sluice.getHost(9999), sluice.getOutputFiles()]);
    expect(await sandboxes()).toHaveLength(1);
    await sluice.kill();
    expect(await sandboxes()).toEqual([]);
    // Other concurrent calls share the sandbox that is being created.
    await Promise.all([
      sluice.uploadFiles({ a: "1" }),
      sluice.uploadContext({ b: "2" }),
      sluice.getHost(9999),
    ]);
    expect(await sandboxes()).toHaveLength(1);
  });

  it("1: two instances in one sandbox: the second run is refused", async () => {
    const one = bench.make();
    await one.run({ prompt: steps({ say: "x" }) });
    const two = bench.make().withSession(one.getSession() ?? "");
    const results = await Promise.allSettled([
      one.run({ prompt: steps({ shell: "sleep 0.5" }) }),
      two.run({ prompt: steps({ shell: "sleep 0.5" }) }),
    ]);
    expect(results.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
    const refused = results.find((result) => result.status === "rejected");
    expect(refused?.reason).toMatchObject({ code: "session_busy" });
  });

  it("2: no event follows the terminal one, not even an unfinished line, also in the background", async () => {
    for (const background of [false, true]) {
      const sluice = bench.make();
      const told: string[] = [];
      sluice.on("content", ({ update }) => told.push(update.sessionUpdate));
      sluice.on("stdout", () => told.push("stdout"));
      sluice.on("lifecycle", ({ reason }) => told.push(reason));
      const line = JSON.stringify({ type: "message", id: "m", text: "unterminated" });
      const unterminated = { rawBytes: Buffer.from(line).toString("base64") };
      const done = next(sluice, background ? "run_background_failed" : "run_failed");
      await sluice.run({ prompt: steps({ say: "a b c" }, unterminated, { exit: 4 }), background });
      await done;
      const printed: string[] = [];
      for await (const event of sluice.events({ signal: AbortSignal.timeout(300) }))
        if (event.type === "stdout") printed.push(event.chunk);
      expect(printed.join("").endsWith(line)).toBe(true);
      expect(told.at(-1)).toMatch(/^run_(background_)?failed$/);
    }
  });

  it("3: a late listener gets the following events, and with replay() the earlier ones, each once", async () => {
    const sluice = bench.make();
    await sluice.run({
      prompt: steps({ say: "early" }, { shell: "until [ -e go ]; do sleep 0.02; done" }, { say: "late" }),
      background: true,
    });
    await new Promise<void>((resolve) => sluice.once("content", () => resolve()));
    const heard = hear(sluice);
    const replayed: string[] = [];
    await sluice.replay("content", ({ update }) => {
      if (update.sessionUpdate === "agent_message_chunk" && update.content.type === "text")
        replayed.push(update.content.text);
    });
    const done = next(sluice, "run_background_complete");
    await sluice.uploadFiles({ go: "" });
    await done;
    expect(heard.text()).toBe("late");
    expect(replayed.join("")).toBe("earlylate");
    const reasons: string[] = [];
    await sluice.replay("lifecycle", ({ reason }) => reasons.push(reason));
    expect(reasons).toEqual(["sandbox_boot", "sandbox_ready", "run_start", "run_background_complete"]);
  });

  it("4: a model's failure is reported, and not as the agent's text", async () => {
    const sluice = bench.make();
    const heard = hear(sluice);
    const result = await sluice.run({ prompt: steps({ say: "before" }, { fail: { kind: "terminal" } }) });
    expect(result.exitCode).toBe(1);
    expect(result.stderr).not.toBe("");
    expect(heard.stderr.join("")).toBe(result.stderr);
    expect(heard.text()).toBe("before");
    expect(heard.reasons().at(-1)).toBe("run_failed");
    expect((await sluice.run({ prompt: steps({ say: "after" }) })).exitCode).toBe(0);
  });

  it("6: text streams in chunks, and a sub-agent's text stays out of the answer", async () => {
    const sluice = bench.make();
    const heard = hear(sluice);
    await sluice.run({
      prompt: steps(
        { say: "one two three", chunks: 3 },
        { subagent: { name: "r", steps: [{ say: "inner" }] } },
      ),
    });
    const chunks = heard.content.filter(({ update }) => update.sessionUpdate === "agent_message_chunk");
    expect(chunks).toHaveLength(3);
    expect(heard.text()).toBe("one two three");
  });

  it("7: a prompt of a megabyte arrives byte for byte", async () => {
    const sluice = bench.make();
    const odd = "quotes ' \" ` dollar $HOME $(id) \\n \\ percent %s\nnewline\ttab é 漢 🦆 ; | & < > * ? !\n";
    const prompt = odd.repeat(Math.ceil(1_000_000 / Buffer.byteLength(odd)));
    expect((await sluice.run({ prompt })).exitCode).toBe(0);
    const sent = (await bench.log(sluice.getSession() ?? "")).find(
      (event) => event.type === "input.accepted",
    );
    expect(sent?.data.content).toEqual([{ type: "text", text: prompt }]);
    const heard = hear(sluice);
    await sluice.run({ prompt: steps({ say: "$history", chunks: 50 }) });
    expect(heard.text() === prompt.trimEnd() || heard.text() === prompt).toBe(true);
  });

  it("8: two conversations in one folder stay two", async () => {
    const folder = await bench.temporary();
    const [one, two] = [bench.make(), bench.make()].map((sluice) => sluice.withWorkingDirectory(folder));
    if (!one || !two) throw new Error("two");
    await one.run({ prompt: "the word is heron" });
    await two.run({ prompt: "the word is crane" });
    const heard = hear(one);
    await one.run({ prompt: steps({ say: "$history" }) });
    expect(heard.text()).toBe("the word is heron");
    await one.executeCommand("echo shared > here.txt");
    expect((await two.executeCommand("cat here.txt")).stdout).toBe("shared\n");
    expect(await readdir(folder)).toContain("here.txt");
  });

  it("10: a durable log with cursors for any number of readers", async () => {
    const sluice = bench.make();
    await sluice.run({ prompt: steps({ say: "one" }) });
    await sluice.run({ prompt: steps({ say: "two" }) });
    const read = async (after: number): Promise<StreamedEvent[]> => {
      const events: StreamedEvent[] = [];
      for await (const event of sluice.events({ after })) {
        events.push(event);
        if (event.type === "lifecycle" && event.event.reason === "sandbox_killed") break;
      }
      return events;
    };
    const readers = [read(0), read(0)];
    await sluice.run({ prompt: steps({ say: "three" }) });
    const id = sluice.getSession() ?? "";
    await sluice.kill();
    const [first, second] = await Promise.all(readers);
    expect(first).toEqual(second);
    const sequences = first?.map(({ sequence }) => sequence) ?? [];
    expect(sequences).toEqual(sequences.toSorted((a, b) => a - b));
    expect((await bench.log(id)).at(-1)?.sequence).toBeGreaterThanOrEqual(sequences.at(-1) ?? 0);
  });

  it("10: keys are in no event and no response, and their files are private", async () => {
    const storage = await bench.temporary();
    const sluice = bench.make().withStorage(storage).withSecrets({ MY_SECRET: "sesame-open-0123456789" });
    const result = await sluice.executeCommand(`printf %s "$MY_SECRET" | rev; echo "$MY_SECRET"`);
    expect(result.stdout).toBe("9876543210-nepo-emases[redacted:MY_SECRET]\n");
    const run = await sluice.run({ prompt: steps({ shell: 'echo "it is $MY_SECRET"' }) });
    expect(run.stdout).not.toContain("sesame-open");
    expect(run.stdout).toContain("[redacted:MY_SECRET]");
    expect(JSON.stringify(await bench.log(run.sandboxId))).not.toContain("sesame-open");
    expect(statSync(join(bench.folder, "data/secrets")).mode & 0o077).toBe(0);
    await sluice.kill();
    expect(await readdir(join(bench.folder, "data/secrets"))).toEqual([]);
  });

  it("10: another client can answer the agent's request", async () => {
    const sluice = bench.make().withAgent({ type: "scripted", permissionMode: "default" });
    await sluice.run({ prompt: steps({ ask: { shell: "echo granted" } }), background: true });
    for (;;) {
      const events = await bench.log(sluice.getSession() ?? "");
      if (events.some((event) => event.type === "permission.requested")) break;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    expect(sluice.status().agent).toBe("running");
    expect(await sluice.interrupt()).toBe(true);
    const bypassed = bench.make().withAgent({ type: "scripted", permissionMode: "bypass" });
    const heard = hear(bypassed);
    expect((await bypassed.run({ prompt: steps({ ask: { shell: "echo granted" } }) })).exitCode).toBe(0);
    const done = heard.content
      .map(({ update }) => update)
      .findLast(({ sessionUpdate }) => sessionUpdate === "tool_call_update");
    expect(done).toMatchObject({ status: "completed" });
    const asked = await bypassed.run({
      prompt: steps({ question: { prompt: "which?", options: ["a", "b"] } }),
    });
    expect(asked.exitCode).toBe(0);
  });

  it("10: by default requests are allowed in an isolated sandbox and refused in any other", async () => {
    const sluice = bench.make();
    await sluice.run({ prompt: steps({ ask: { shell: "touch output/granted" } }) });
    const events = await bench.log(sluice.getSession() ?? "");
    const isolated = bench.place.sandbox !== "local";
    expect(await sluice.executeCommand("ls output")).toMatchObject({ stdout: isolated ? "granted\n" : "" });
    const denied = events.filter(({ type }) => type === "permission.resolved");
    if (!isolated) expect(denied.at(-1)?.data).toMatchObject({ status: "denied" });
  });
});
