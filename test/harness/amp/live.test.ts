import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { SessionSpec, SluiceEvent } from "../../../src/contract/index.ts";
import { amp } from "../../../src/harness/amp/harness.ts";
import type { Harness } from "../../../src/harness/port.ts";
import {
  ofType,
  openEngine,
  readAll,
  runTurn,
  say,
  script,
  type TestEngine,
  waitFor,
} from "../../support/engine.ts";
import { expectLawful } from "../../support/laws.ts";
import { describeBwrap, makeProvider } from "../../sandbox/bwrap-bench.ts";

/**
 * Amp's agent loop runs on Amp's server, so no real turn can be had here: a stub executable prints the lines that
 * Amp documents. Everything around it is real, the gate and its questions included.
 */
const KEY = "sgamp_test_0123456789abcdef";

describe("Amp, by a stub that speaks its documented stream", () => {
  const folder = mkdtempSync(join(tmpdir(), "sluice-amp-"));
  const { PATH, AMP_API_KEY } = process.env;
  let test: TestEngine;

  beforeAll(async () => {
    const stub = join(import.meta.dirname, "stub-amp.mjs");
    chmodSync(stub, 0o755);
    symlinkSync(stub, join(folder, "amp"));
    process.env["PATH"] = `${folder}${delimiter}${PATH}`;
    delete process.env["AMP_API_KEY"];
    test = await openEngine({ harnesses: [amp as Harness], defaultSandbox: "local" });
  });

  afterAll(async () => {
    await test.close();
    process.env["PATH"] = PATH;
    if (AMP_API_KEY !== undefined) process.env["AMP_API_KEY"] = AMP_API_KEY;
    rmSync(folder, { recursive: true, force: true });
  });

  async function create(id: string, more: Partial<SessionSpec> = {}): Promise<void> {
    const spec = {
      agent: "amp",
      ...more,
      env: { AMP_API_KEY: KEY, AMP_URL: "http://127.0.0.1:9", ...more.env },
    };
    await test.engine.create(id, spec);
  }

  /** Sends the script and answers the first question with `reply`. */
  async function answered(
    id: string,
    steps: unknown[],
    reply: "once" | "always" | "reject",
    message?: string,
  ) {
    const { turnId, after } = await say(test.engine, id, script(...steps));
    const { data } = await waitFor(test.log, id, "permission.requested", { after });
    await test.engine.resolvePermission(id, data.permission_id, {
      reply,
      ...(message === undefined ? {} : { message }),
    });
    await waitFor(test.log, id, "turn.ended", { after, where: (event) => event.data.turn_id === turnId });
    return (await readAll(test.log, id)).slice(after);
  }

  it("finds the CLI and its version", async () => {
    expect(await amp.detect({ withVersion: true })).toEqual({
      installed: true,
      version: "0.0.1790142911-stub",
    });
  });

  it("tells a turn with everything in it", async () => {
    await create("all", { permissionMode: "bypass", variant: "high" });
    const end = await runTurn(
      test,
      "all",
      script(
        { think: "Hm." },
        { shell: "echo one; exit 3" },
        { write: { path: "a.txt", content: "old\n" } },
        { edit: { path: "a.txt", old_str: "old", new_str: "new" } },
        { todo: [{ id: "1", content: "Look", status: "in-progress" }] },
        { subagent: [{ shell: "echo nested" }] },
        { say: "The mode is $mode." },
      ),
    );
    expect(end.data).toMatchObject({ status: "completed", stop_reason: "end_turn" });
    const events = await readAll(test.log, "all");
    expectLawful(events);
    expect(events.filter(({ type }) => type === "agent.unparsed")).toEqual([]);
    expect(textsOf(events)).toEqual(["Nested.", "The mode is high."]);
    expect(events.some((event) => partsOf(event).some((part) => part.type === "reasoning"))).toBe(true);
    expect(resultsOf(events)[0]).toMatchObject({
      status: "failed",
      content: [{ output: "one\n" }, { json: { exit_code: 3 } }],
    });
    const files = events.flatMap(partsOf).filter((part) => part.type === "file_ref");
    expect(files).toMatchObject([
      { action: "write" },
      { action: "patch", diff: expect.stringContaining("-old\n+new") },
    ]);
    expect(ofType(events, "plan.updated")[0]?.data.entries).toMatchObject([
      { content: "Look", status: "in_progress" },
    ]);
    expect(events.filter((event) => event.parent_id !== undefined).length).toBeGreaterThan(0);
    // Nine requests of the model, of which each read ten tokens anew and ninety from the cache.
    const requests = ofType(events, "model.ended").length;
    expect(end.data.usage).toEqual({
      input_tokens: 10 * requests,
      output_tokens: 5 * requests,
      cache_read_tokens: 90 * requests,
      cache_write_tokens: 10 * requests,
    });
    expect(JSON.stringify(events)).not.toContain(KEY);
  });

  it("asks before a tool runs: allowed once, refused with words, allowed for the session", async () => {
    await create("asks");
    const allowed = await answered("asks", [{ shell: "echo ran" }], "once");
    expect(resultsOf(allowed)).toMatchObject([{ status: "completed", content: [{ output: "ran\n" }] }]);
    expect(ofType(allowed, "permission.requested")[0]?.data).toMatchObject({
      action: "Bash",
      metadata: { kind: "execute" },
    });

    const refused = await answered("asks", [{ shell: "echo ran" }], "reject", "Not on a Sunday.");
    expect(resultsOf(refused)).toMatchObject([
      { status: "failed", content: [{ output: expect.stringContaining("Not on a Sunday.") }] },
    ]);

    const always = await answered("asks", [{ shell: "echo a" }, { shell: "echo b" }], "always");
    expect(ofType(always, "permission.requested")).toHaveLength(1);
    expect(resultsOf(always)).toMatchObject([{ status: "completed" }, { status: "completed" }]);
    expectLawful(await readAll(test.log, "asks"));
  });

  it("keeps the policy of a session: plan changes nothing, acceptEdits edits and asks for commands", async () => {
    await create("plan", { permissionMode: "plan" });
    await runTurn(test, "plan", script({ write: { path: "x", content: "x" } }));
    expect(resultsOf(await readAll(test.log, "plan"))).toMatchObject([{ status: "failed" }]);

    await create("edits", { permissionMode: "acceptEdits" });
    const events = await answered(
      "edits",
      [{ write: { path: "x", content: "x" } }, { shell: "cat x" }],
      "once",
    );
    expect(resultsOf(events)).toMatchObject([{ status: "completed" }, { status: "completed" }]);
    expect(ofType(events, "permission.requested")).toMatchObject([{ data: { action: "Bash" } }]);
  });

  it("is interrupted in a tool, and goes on in another process with the thread", async () => {
    await create("stop", { permissionMode: "bypass" });
    await runTurn(test, "stop", "first words");
    const { turnId, after } = await say(test.engine, "stop", script({ shell: "sleep 60" }));
    await waitFor(test.log, "stop", "item.completed", {
      after,
      where: ({ data }) => data.item.kind === "tool_call",
    });
    await test.engine.interrupt("stop");
    const end = await waitFor(test.log, "stop", "turn.ended", {
      after,
      where: ({ data }) => data.turn_id === turnId,
    });
    expect(end.data).toMatchObject({ status: "interrupted", stop_reason: "interrupted" });

    await runTurn(test, "stop", script({ say: "$history" }));
    const events = await readAll(test.log, "stop");
    expectLawful(events);
    expect(textsOf(events).at(-1)).toContain("first words|#script");
    expect(ofType(events, "process.started").map(({ data }) => data.resumed !== undefined)).toEqual([
      false,
      true,
    ]);
    expect(new Set(ofType(events, "session.updated").map(({ data }) => data.native_session_id)).size).toBe(1);
  });

  it("is interrupted while it asks: the question is closed with the turn", async () => {
    await create("stopped-asking");
    const { after } = await say(test.engine, "stopped-asking", script({ shell: "echo never" }));
    await waitFor(test.log, "stopped-asking", "permission.requested", { after });
    await test.engine.interrupt("stopped-asking");
    const end = await waitFor(test.log, "stopped-asking", "turn.ended", { after });
    expect(end.data.status).toBe("interrupted");
    const events = await readAll(test.log, "stopped-asking");
    expect(ofType(events, "permission.resolved")).toMatchObject([{ data: { status: "denied" } }]);
    expectLawful(events);
  });

  it.each(["each", "end"])("has one end per turn, whether a result comes with %s", async (STUB_RESULT) => {
    const id = `result-${STUB_RESULT}`;
    await create(id, { env: { STUB_RESULT } });
    for (const words of ["one", "two", "three"]) await runTurn(test, id, words);
    const events = await readAll(test.log, id);
    expect(ofType(events, "turn.ended").map(({ data }) => data.status)).toEqual([
      "completed",
      "completed",
      "completed",
    ]);
    expect(textsOf(events)).toEqual(["You said: one", "You said: two", "You said: three"]);
    expect(ofType(events, "process.started")).toHaveLength(1);
    expect(events.filter(({ type }) => type === "agent.unparsed")).toEqual([]);
  });

  it("tells failures as what they are, and what is no line of the protocol as unparsed", async () => {
    await create("fails");
    const ends = [];
    for (const step of [{ fail: "Overloaded" }, { fail: "prompt is too long" }, { maxTurns: true }]) {
      ends.push((await runTurn(test, "fails", script(step))).data);
    }
    expect(ends).toMatchObject([
      { status: "failed", stop_reason: "retries_exhausted", error: { code: "overloaded" } },
      { status: "failed", stop_reason: "end_turn", error: { code: "context_length" } },
      { status: "failed", stop_reason: "max_turns" },
    ]);
    await runTurn(test, "fails", script({ raw: "warning: something" }, { say: "Still here." }));
    const events = await readAll(test.log, "fails");
    expect(ofType(events, "agent.unparsed")).toHaveLength(1);
    expect(textsOf(events)).toEqual(["Still here."]);
    expectLawful(events);
  });

  it("ends the session when there is no key, with nothing of the login page in the log", async () => {
    await test.engine.create("keyless", { agent: "amp" });
    const end = await runTurn(test, "keyless", "hi");
    expect(end.data).toMatchObject({
      status: "failed",
      stop_reason: "model_error",
      error: { code: "unauthorized" },
    });
    await waitFor(test.log, "keyless", "session.ended");
    expect(JSON.stringify(await readAll(test.log, "keyless", true))).not.toContain("authToken");
  });

  it("carries a file, an image and MCP servers, and leaves no secret on the command line", async () => {
    const mcp = {
      docs: {
        type: "http" as const,
        url: "http://127.0.0.1:9/mcp",
        headers: { Authorization: "Bearer mcp-secret-1" },
      },
    };
    const launch = amp.launch(
      { agent: "amp", mcp, instructions: "Be brief.", env: { AMP_API_KEY: KEY } },
      { workspace: "/w", home: "/h" },
    );
    const settings = launch.files?.find(({ path }) => path === ".config/amp/settings.json");
    expect(settings).toMatchObject({ mode: 0o600, content: expect.stringContaining("mcp-secret-1") });
    expect(launch.argv.join(" ")).not.toMatch(/secret|sgamp/);
    expect(launch.hosts).toEqual(["ampcode.com", "*.ampcode.com", "127.0.0.1:9"]);

    await create("parts");
    const content = [
      { type: "text" as const, text: "Look:" },
      { type: "file_ref" as const, path: "/tmp/notes.md", action: "read" as const },
      { type: "image" as const, path: "data:image/png;base64,AA==", mime: "image/png" },
    ];
    const { after } = await test.engine.send("parts", { content, via: "test" });
    await waitFor(test.log, "parts", "turn.ended", { after });
    expect(textsOf(await readAll(test.log, "parts"))).toEqual([
      "You said: Look:\nAttached file: /tmp/notes.md\n[image]",
    ]);
  });

  it("goes on while the server is away, and is heard to its end by the next one", async () => {
    await create("lives", { permissionMode: "bypass" });
    const { turnId, after } = await say(
      test.engine,
      "lives",
      script({ shell: "sleep 1; echo slept" }, { say: "Awake." }),
    );
    await waitFor(test.log, "lives", "item.completed", {
      after,
      where: ({ data }) => data.item.kind === "tool_call",
    });
    await test.restart();
    const end = await waitFor(test.log, "lives", "turn.ended", {
      after,
      where: ({ data }) => data.turn_id === turnId,
    });
    expect(end.data.status).toBe("completed");
    expectLawful(await readAll(test.log, "lives"));
  });

  it("takes a message into the running turn", async () => {
    await create("steered", { permissionMode: "bypass" });
    const { turnId, after } = await say(
      test.engine,
      "steered",
      // The message is on its way when the file is there, and may take its time.
      script({ shell: "until [ -e go ]; do sleep 0.05; done; sleep 1" }, { say: "One." }),
    );
    await waitFor(test.log, "steered", "item.completed", {
      after,
      where: ({ data }) => data.item.kind === "tool_call",
    });
    const content = [{ type: "text" as const, text: "hurry" }];
    expect(await test.engine.send("steered", { content, via: "test", delivery: "steer" })).toMatchObject({
      turnId,
    });
    await (await test.engine.files("steered")).write("go", "");
    await waitFor(test.log, "steered", "turn.ended", { after });
    const events = await readAll(test.log, "steered");
    expect(textsOf(events)).toEqual(["One. Steered: hurry"]);
    expect(ofType(events, "turn.ended")).toHaveLength(1);
    expectLawful(events);
  });

  it("fails closed where nobody answers, and says so", async () => {
    await create("alone", { unattended: true });
    const end = await runTurn(test, "alone", script({ shell: "echo never" }));
    expect(end.data.status).toBe("completed");
    const events = await readAll(test.log, "alone");
    expect(ofType(events, "permission.resolved")).toMatchObject([{ data: { status: "denied" } }]);
    expect(resultsOf(events)).toMatchObject([{ status: "failed" }]);
  });

  it("ends the session when Amp dies in mid-turn, with its exit code", async () => {
    await create("dies", { permissionMode: "bypass" });
    await runTurn(test, "dies", "first");
    const end = await runTurn(test, "dies", script({ exit: 7 }));
    expect(end.data).toMatchObject({ status: "failed", stop_reason: "agent_exited" });
    const ended = await waitFor(test.log, "dies", "session.ended");
    expect(ended.data).toMatchObject({ reason: "error", exit_code: 7 });
  });

  it("leaves no process behind", () => {
    const left = readdirSync("/proc").filter((name) => /^\d+$/.test(name) && cmdline(name).includes(folder));
    expect(left).toEqual([]);
  });
});

function cmdline(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return "";
  }
}

function partsOf(event: SluiceEvent) {
  return event.type === "item.completed" ? event.data.item.content : [];
}

function textsOf(events: readonly SluiceEvent[]): string[] {
  return ofType(events, "item.completed").flatMap(({ data: { item } }) =>
    item.role === "assistant"
      ? item.content.flatMap((part) => (part.type === "text" ? [part.text] : []))
      : [],
  );
}

function resultsOf(events: readonly SluiceEvent[]) {
  return ofType(events, "item.completed").flatMap(({ data: { item } }) =>
    item.kind === "tool_result" ? [item] : [],
  );
}

describeBwrap("Amp's stub in bwrap", () => {
  it("runs isolated behind the gate, with a question on the way", async () => {
    const folder = mkdtempSync(join(tmpdir(), "sluice-amp-"));
    const { PATH } = process.env;
    symlinkSync(join(import.meta.dirname, "stub-amp.mjs"), join(folder, "amp"));
    process.env["PATH"] = `${folder}${delimiter}${PATH}`;
    const { provider } = await makeProvider();
    const test = await openEngine({
      harnesses: [amp as Harness],
      providers: [provider],
      defaultSandbox: "bwrap",
    });
    try {
      const env = { AMP_API_KEY: KEY, AMP_URL: "http://127.0.0.1:9" };
      await test.engine.create("isolated", { agent: "amp", env });
      const { after } = await say(test.engine, "isolated", script({ shell: "pwd" }, { say: "Done here." }));
      const { data } = await waitFor(test.log, "isolated", "permission.requested", { after });
      await test.engine.resolvePermission("isolated", data.permission_id, { reply: "once" });
      await waitFor(test.log, "isolated", "turn.ended", { after });
      const events = await readAll(test.log, "isolated");
      expect(resultsOf(events)).toMatchObject([
        { content: [{ output: expect.stringContaining("workspace") }] },
      ]);
      expect(textsOf(events)).toEqual(["Done here."]);
      expectLawful(events);
    } finally {
      await test.close();
      process.env["PATH"] = PATH;
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
