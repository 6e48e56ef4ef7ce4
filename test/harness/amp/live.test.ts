import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { SluiceEvent } from "../../../src/contract/index.ts";
import { amp } from "../../../src/harness/amp/harness.ts";
import { describeBwrap, makeProvider } from "../../sandbox/bwrap-bench.ts";
import { ofType, readAll, runTurn, script, type TestEngine, waitFor } from "../../support/engine.ts";
import { assistantTexts, expectLawful } from "../../support/laws.ts";
import { resultsOf } from "../told.ts";
import { type AmpBench, KEY, openAmp } from "./amp-bench.ts";

describe("Amp, by a stub that speaks its documented stream", () => {
  let bench: AmpBench;
  let test: TestEngine;

  beforeAll(async () => {
    bench = await openAmp();
    test = bench.test;
  });
  afterAll(() => bench.close());

  it("finds the CLI and its version", async () => {
    expect(await amp.detect({ withVersion: true })).toEqual({
      installed: true,
      version: "0.0.1790142911-stub",
    });
  });

  it("tells a turn with everything in it", async () => {
    await bench.create("all", { permissionMode: "bypass", variant: "high" });
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
    expect(assistantTexts(events)).toEqual(["Nested.", "The mode is high."]);
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
    // Nine model requests, each with ten new tokens and ninety of the cache.
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
    await bench.create("asks");
    const allowed = await bench.answered("asks", [{ shell: "echo ran" }], "once");
    expect(resultsOf(allowed)).toMatchObject([{ status: "completed", content: [{ output: "ran\n" }] }]);
    expect(ofType(allowed, "permission.requested")[0]?.data).toMatchObject({
      action: "Bash",
      metadata: { kind: "execute" },
    });

    const refused = await bench.answered("asks", [{ shell: "echo ran" }], "reject", "Not on a Sunday.");
    expect(resultsOf(refused)).toMatchObject([
      { status: "failed", content: [{ output: expect.stringContaining("Not on a Sunday.") }] },
    ]);

    const always = await bench.answered("asks", [{ shell: "echo a" }, { shell: "echo b" }], "always");
    expect(ofType(always, "permission.requested")).toHaveLength(1);
    expect(resultsOf(always)).toMatchObject([{ status: "completed" }, { status: "completed" }]);
    expectLawful(await readAll(test.log, "asks"));
  });

  it("keeps the policy of a session: plan changes nothing, acceptEdits edits and asks for commands", async () => {
    await bench.create("plan", { permissionMode: "plan" });
    await runTurn(test, "plan", script({ write: { path: "x", content: "x" } }));
    expect(resultsOf(await readAll(test.log, "plan"))).toMatchObject([{ status: "failed" }]);

    await bench.create("edits", { permissionMode: "acceptEdits" });
    const events = await bench.answered(
      "edits",
      [{ write: { path: "x", content: "x" } }, { shell: "cat x" }],
      "once",
    );
    expect(resultsOf(events)).toMatchObject([{ status: "completed" }, { status: "completed" }]);
    expect(ofType(events, "permission.requested")).toMatchObject([{ data: { action: "Bash" } }]);
  });

  it("tells failures by their code, and lines outside the protocol as unparsed", async () => {
    await bench.create("fails");
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
    expect(assistantTexts(events)).toEqual(["Still here."]);
    expectLawful(events);
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

    await bench.create("parts");
    const content = [
      { type: "text" as const, text: "Look:" },
      { type: "file_ref" as const, path: "/tmp/notes.md", action: "read" as const },
      { type: "image" as const, path: "data:image/png;base64,AA==", mime: "image/png" },
    ];
    const { after } = await test.engine.send("parts", { content, via: "test" });
    await waitFor(test.log, "parts", "turn.ended", { after });
    expect(assistantTexts(await readAll(test.log, "parts"))).toEqual([
      "You said: Look:\nAttached file: /tmp/notes.md\n[image]",
    ]);
  });

  it("fails closed without a user to answer, and says so", async () => {
    await bench.create("alone", { unattended: true });
    const end = await runTurn(test, "alone", script({ shell: "echo never" }));
    expect(end.data.status).toBe("completed");
    const events = await readAll(test.log, "alone");
    expect(ofType(events, "permission.resolved")).toMatchObject([{ data: { status: "denied" } }]);
    expect(resultsOf(events)).toMatchObject([{ status: "failed" }]);
  });

  it("leaves no process behind", () => {
    expect(bench.processes()).toEqual([]);
  });
});

function partsOf(event: SluiceEvent) {
  return event.type === "item.completed" ? event.data.item.content : [];
}

describeBwrap("Amp's stub in bwrap", () => {
  it("runs isolated behind the gate, with a permission request", async () => {
    const { provider } = await makeProvider();
    const { test, create, answered, close } = await openAmp({
      providers: [provider],
      defaultSandbox: "bwrap",
    });
    try {
      await create("isolated");
      const turn = await answered("isolated", [{ shell: "pwd" }, { say: "Done here." }], "once");
      expect(resultsOf(turn)).toMatchObject([
        { content: [{ output: expect.stringContaining("workspace") }] },
      ]);
      expect(assistantTexts(turn)).toEqual(["Done here."]);
      expectLawful(await readAll(test.log, "isolated"));
    } finally {
      await close();
    }
  });
});
