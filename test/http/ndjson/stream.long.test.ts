import { once } from "node:events";
import { type IncomingMessage, request as httpRequest } from "node:http";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createNdjsonTap, parseLine } from "../../../src/dialects/ndjson/index.ts";
import { expectTurn, stepsOf } from "../../dialects/ndjson/turn-laws.ts";
import { readAll, script, waitFor } from "../../support/engine.ts";
import { expectLawful } from "../../support/laws.ts";
import { codeOf } from "../app-bench.ts";
import { messagesOf, type NdjsonBench, openNdjson, readRun } from "./ndjson-bench.ts";

let bench: NdjsonBench;

beforeAll(async () => {
  bench = await openNdjson();
});

afterAll(() => bench.close());

describe("POST /ndjson/stream", () => {
  it("streams one turn, one object per line (ND-01, ND-02)", async () => {
    const { response, text: body, lines } = await readRun(await bench.post("/stream", { prompt: "hello" }));
    expect(response.headers.get("content-type")).toBe("application/x-ndjson");
    expect(body).not.toMatch(/^data:|\n\n|\r/m);
    expect(body.endsWith("\n")).toBe(true);
    expectTurn(lines);
    expect(new Set(lines.map(({ type }) => type))).toEqual(new Set(["log", "step", "result"]));
    expect(lines.at(-1)).toMatchObject({ type: "result", message: expect.stringContaining("hello") });
  });

  it("sends spaces during silence, before the next line", async () => {
    const quick = await openNdjson({ pingMs: 20 });
    try {
      const { text: body, lines } = await quick.run("silent", { shell: "sleep 1" }, { say: "done" });
      expect(body).toMatch(/^ +\{/m);
      expect(body).not.toMatch(/\n *\n/);
      expectTurn(lines);
      for (const line of body.trimEnd().split("\n")) expect(JSON.parse(line)).toEqual(parseLine(line));
    } finally {
      await quick.close();
    }
  });

  it("has each tool call twice, with its arguments and its result (ND-07, ND-11, ND-12)", async () => {
    const { lines } = await bench.run(undefined, { shell: "printf 'a\\nb'" }, { say: "done" });
    const [running, succeeded] = stepsOf(lines);
    expect(running).toMatchObject({ name: "shell", status: "running", args: { command: "printf 'a\\nb'" } });
    expect(succeeded).toMatchObject({ id: running?.id, name: "shell", status: "succeeded", result: "a\nb" });
    expect(succeeded?.durationMs).toBe((succeeded?.ts ?? 0) - (running?.ts ?? 0));
    expect(running).not.toHaveProperty("durationMs");
  });

  it("has the error of a failed tool (ND-08)", async () => {
    const { lines } = await bench.run(undefined, { shell: "echo no such luck; exit 3" }, { shell: "exit 4" });
    const failed = stepsOf(lines).filter(({ status }) => status === "failed");
    expect(failed.map(({ error }) => error)).toEqual([
      expect.stringContaining("no such luck"),
      "exit code 4",
    ]);
    for (const step of failed) expect(step).not.toHaveProperty("result");
  });

  it("keeps parallel tools apart (ND-10)", async () => {
    const tools = ["sleep 0.2; echo one", "echo two", "exit 1"].map((shell) => ({ shell }));
    const { lines } = await bench.run(undefined, { parallel: tools }, { say: "done" });
    expectTurn(lines);
    expect(new Set(stepsOf(lines).map(({ id }) => id)).size).toBe(3);
  });

  it("has the final text once, behind the last step, and earlier texts as logs (ND-13)", async () => {
    const { lines } = await bench.run(
      undefined,
      { say: "first" },
      { shell: "true" },
      { say: "the last word" },
    );
    expect(lines.filter(({ type }) => type === "result")).toMatchObject([{ message: "the last word" }]);
    expect(lines).toContainEqual(expect.objectContaining({ type: "log", level: "debug", message: "first" }));
  });

  it("has steps of sub-agents, and never their text as the result", async () => {
    const steps = [{ shell: "echo inner" }, { say: "inner words" }];
    const { lines } = await bench.run(undefined, { say: "mine" }, { subagent: { name: "r", steps } });
    expectTurn(lines);
    expect(stepsOf(lines).filter(({ status }) => status === "succeeded")).toHaveLength(2);
    expect(lines.at(-1)).toMatchObject({ type: "result", message: "mine" });
  });

  it("streams 5 MB of a result untruncated (ND-12)", async () => {
    const { lines } = await bench.run(
      undefined,
      { shell: "head -c 5000000 /dev/zero | tr '\\0' x" },
      { say: "y" },
    );
    const [, succeeded] = stepsOf(lines);
    expect(succeeded?.result).toBe("x".repeat(5_000_000));
    const said = await bench.run(undefined, { say: "z".repeat(5_000_000), chunks: 3 });
    expect(said.lines.at(-1)).toMatchObject({ type: "result", message: "z".repeat(5_000_000) });
  });

  it.each([
    ["terminal", { fail: { kind: "terminal" } }, "terminal"],
    ["exhausted", { fail: { kind: "overloaded", times: 9 } }, "overloaded"],
    ["dead", { signal: "SIGKILL" }, "agent_process_exited"],
  ])("ends a %s run with one error and no result (ND-16)", async (_, step, code) => {
    const retries = { tries: 2, backoffMs: 1 };
    const run = await readRun(
      await bench.post("/stream", { prompt: script({ shell: "true" }, step), retries }),
    );
    expectTurn(run.lines);
    expect(run.lines.at(-1)).toMatchObject({ type: "error", code, message: expect.stringMatching(/\S/) });
    expect((await messagesOf(bench, run.conversation)).map(({ role }) => role)).toEqual(["user"]);
  });

  it("logs retries, unreadable lines and pauses (ND-05)", async () => {
    const { lines } = await readRun(
      await bench.post("/stream", {
        prompt: script(
          { fail: { kind: "overloaded", times: 1 } },
          { raw: "junk" },
          { think: "hm" },
          { say: "x" },
        ),
        retries: { tries: 3, backoffMs: 1 },
      }),
    );
    const logs = lines.filter((line) => line.type === "log");
    const ofLevel = (level: string): string[] =>
      logs.filter((log) => log.level === level).map((log) => log.message);
    expect(ofLevel("warn").join("\n")).toMatch(/overloaded[^]*was not understood/);
    expect(ofLevel("debug")).toContain("hm");
    expect(ofLevel("info").join("\n")).toMatch(/sandbox ready/);
    expect(lines.at(-1)).toMatchObject({ type: "result", message: "x" });
  });

  it("refuses the agent's requests, and the run continues", async () => {
    const { lines } = await bench.run(undefined, { ask: { shell: "true" } }, { say: "after all" });
    expectTurn(lines);
    expect(stepsOf(lines).at(-1)).toMatchObject({ status: "failed" });
    expect(lines.at(-1)).toMatchObject({ type: "result", message: "after all" });
  });

  it("equals its replay from the log, turn by turn (ND-32, ND-33)", async () => {
    const first = await bench.run("archived", { shell: "echo 1" }, { say: "one" });
    const second = await bench.run("archived", { think: "hm" }, { say: "two" });
    expect(second.conversation).toBe("archived");
    const { stream } = await bench.chat("archived", { say: "three" });
    const third = await (await bench.call("GET", stream)).text();
    expect(third).toContain('"message":"three"');
    const { createPrint } = await import("../../../src/cli/transcript/formats.ts");
    const print = createPrint("ndjson", { color: false, width: 80 } as never);
    const events = await bench.test.log.read("archived", { after: 0, limit: 1000 });
    const archive = events.map(print).join("");
    expect(archive.startsWith(first.text + second.text)).toBe(true);
    expectLawful(await readAll(bench.test.log, "archived"));
  });

  it("passes the bytes unchanged through a workflow, which gets the response (ND-23)", async () => {
    const response = await bench.post("/stream", {
      prompt: script({ shell: "echo é" }, { say: "the response" }),
    });
    const [seen, forwarded] = (response.body as ReadableStream<Uint8Array>).tee();
    const tap = createNdjsonTap();
    const [upstream, downstream] = await Promise.all([
      new Response(seen).arrayBuffer(),
      new Response(forwarded.pipeThrough(tap)).arrayBuffer(),
    ]);
    expect(Buffer.from(downstream).equals(Buffer.from(upstream))).toBe(true);
    expect(await tap.response).toBe("the response");
  });

  it.each([
    ["no words", {}, 400, "invalid_request"],
    ["an empty prompt", { prompt: "" }, 400, "invalid_request"],
    [
      "a last message that is not the user's",
      { messages: [{ role: "assistant", content: "x" }] },
      400,
      "invalid_request",
    ],
    ["two conversations", { prompt: "x", conversation: "a", session: "b" }, 400, "invalid_request"],
    ["an unknown field", { prompt: "x", modle: "y" }, 400, "invalid_request"],
    ["a conversation that cannot be one", { prompt: "x", conversation: "../x" }, 400, "invalid_request"],
    ["an unknown agent", { prompt: "x", agent: "nobody" }, 400, "unsupported_agent"],
    ["an unknown sandbox", { prompt: "x", sandbox: "moon" }, 400, "unsupported_sandbox"],
  ])("refuses %s before the first byte (ND-34)", async (_, body, status, code) => {
    const response = await bench.post("/stream", body);
    expect(response.status).toBe(status);
    expect(await codeOf(response)).toBe(code);
  });

  it("refuses another agent for a conversation, and messages to an ended one", async () => {
    const { conversation } = await bench.run("taken", { fail: { kind: "terminal" } });
    await waitFor(bench.test.log, conversation, "session.ended");
    expect((await bench.post("/stream", { conversation, agent: "claude", prompt: "x" })).status).toBe(400);
    const again = await bench.post("/stream", { session: conversation, prompt: "x" });
    expect([again.status, await codeOf(again)]).toEqual([409, "session_ended"]);
  });

  it("starts no second run for a resend", async () => {
    const init = { headers: { "idempotency-key": "k-1" } };
    const body = { prompt: script({ say: "once" }), messages: [{ role: "user", content: "before" }] };
    const first = await readRun(await bench.post("/stream", body, init));
    const second = await readRun(await bench.post("/stream", body, init));
    expect(second.text).toBe(first.text);
    expect([second.conversation, second.turn, second.otp]).toEqual([first.conversation, first.turn, ""]);
    const other = await bench.post("/stream", { ...body, prompt: "other" }, init);
    expect([other.status, await codeOf(other)]).toEqual([409, "idempotency_conflict"]);
  });

  it("lets a paused reader wait without cost and read all later (ND-35)", async () => {
    const tool = { shell: "head -c 4000000 /dev/zero | tr '\\0' y" };
    const request = httpRequest(`${bench.url}/ndjson/stream`, { method: "POST", agent: false });
    request.end(JSON.stringify({ prompt: script(tool, tool, tool, { say: "end" }), conversation: "slow" }));
    const [response] = (await once(request, "response")) as [IncomingMessage];
    // The run ends although no reader takes the lines.
    const ended = await waitFor(bench.test.log, "slow", "turn.ended");
    expect(ended.data.status).toBe("completed");
    const lines = (await text(response)).trimEnd().split("\n").map(parseLine);
    expectTurn(lines);
    const results = stepsOf(lines).filter(({ status }) => status === "succeeded");
    expect(results.map(({ result }) => (result as string).length)).toEqual([4e6, 4e6, 4e6]);
  });
});
