import { join } from "node:path";
import { writeFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { SluiceEvent } from "../../src/contract/index.ts";
import { ended, lines, printed, script, Workbench } from "./workbench.ts";
import { sample } from "../harness/scripted/sample.ts";

const BIN = join(import.meta.dirname, "../../bin/sluice");
let bench: Workbench;

beforeAll(async () => {
  bench = new Workbench();
  await bench.run(["run", "--session", "first", script({ say: "hello world" })]);
  await bench.run(["run", "--session", "second", script({ flood: { events: 3000, bytes: 40 } })]);
});

afterAll(() => bench.close());

describe("sluice sessions", () => {
  it("lists the newest first", async () => {
    const { code, out } = await bench.run(["sessions"]);
    expect(code).toBe(0);
    const [heading, ...rows] = out.trimEnd().split("\n");
    expect(heading).toMatch(/^SESSION +AGENT +STATUS +EVENTS/);
    expect(rows.map((row) => row.split(/ +/).slice(0, 3))).toEqual([
      ["second", "scripted", "idle"],
      ["first", "scripted", "idle"],
    ]);
  });

  it("prints whole objects with --json", async () => {
    const sessions = lines((await bench.run(["sessions", "--json"])).out);
    expect(sessions[1]).toMatchObject({
      sessionId: "first",
      agent: "scripted",
      status: "idle",
      ended: false,
    });
  });

  it("names its source if there are no sessions", async () => {
    const { code, err } = await bench.run(["sessions", "--data", join(bench.folder, "nowhere")]);
    expect(code).toBe(1);
    expect(err).toContain(join(bench.folder, "nowhere"));
  });
});

describe("sluice tail", () => {
  it("prints the transcript of an idle session and exits", async () => {
    const { code, out } = await bench.run(["tail", "first"]);
    expect(code).toBe(0);
    expect(out).toContain("\nhello world\n");
    expect(out).toContain("✓ done");
  });

  it("prints the events after --after", async () => {
    const all = lines((await bench.run(["tail", "first", "--json"])).out);
    const rest = lines((await bench.run(["tail", "first", "--as", "universal", "--after", "5"])).out);
    expect(rest).toEqual(all.slice(5));
  });

  it("exits quietly when its reader closes the pipe", async () => {
    const argv = ["sh", "-c", '"$0" tail second --json | head -1', BIN];
    const { out, err, code } = await bench.run([], { argv });
    expect({ err, code }).toEqual({ err: "", code: 0 });
    expect(lines(out)).toHaveLength(1);
  });

  it("follows a session of another process until its turn ends", async () => {
    const runner = bench.start([
      "run",
      "--session",
      "live",
      script({ say: "begun" }, { sleep: 500 }, { say: "over now" }),
    ]);
    const ran = ended(runner);
    await printed(runner, /begun/);
    const { out, code } = await bench.run(["tail", "live"]);
    expect(code).toBe(0);
    expect(out).toContain("over now");
    expect((await ran).code).toBe(0);
  });

  it("waits for more with --follow, until Ctrl-C", async () => {
    const child = bench.start(["tail", "first", "--follow"]);
    const end = ended(child);
    await printed(child, /✓ done/);
    const more = printed(child, /\none more thing\n/);
    await bench.run(["run", "--session", "first", script({ say: "one more thing" })]);
    await more;
    child.kill("SIGINT");
    const { code, out } = await end;
    expect(code).toBe(0);
    expect(out).toContain("hello world");
  });

  it.each([["tail"], ["export"]])("explains an unknown session (%s)", async (command) => {
    const { code, err, out } = await bench.run([command, "nobody"]);
    expect({ code, out }).toEqual({ code: 1, out: "" });
    expect(err).toMatch(/There is no such session.*"nobody" is not in .*sluice sessions/);
  });

  it("explains an invalid cursor", async () => {
    const { code, err } = await bench.run(["tail", "first", "--after", "x"]);
    expect(code).toBe(2);
    expect(err).toContain("A sequence is a whole number from 0.");
  });
});

describe("sluice export", () => {
  it("writes the whole log, one event per line", async () => {
    const events = lines((await bench.run(["export", "second"])).out);
    expect(events.map((event) => event["sequence"])).toEqual(events.map((_, n) => n + 1));
    expect(events.filter((event) => event["type"] === "item.delta").length).toBeGreaterThanOrEqual(3000);
  });
});

function recording(): string {
  const rows = [
    { t: 0, dir: "meta", raw: "{}" },
    { t: 1, dir: "in", raw: JSON.stringify({ type: "prompt", id: "inp_x", text: "do it" }) },
    ...sample.map(({ dir, text }, n) => ({ t: 2 + n, dir, raw: text })),
    { t: 9000, dir: "exit", raw: '{"code":0,"signal":null}' },
  ];
  return rows.map((row) => `${JSON.stringify(row)}\n`).join("");
}

function out(raw: unknown) {
  return { dir: "out", raw: JSON.stringify(raw) };
}

function sent(raw: unknown) {
  return { dir: "in", raw: JSON.stringify(raw) };
}

describe("sluice decode", () => {
  it("prints the events of a recording, with the same bytes each time", async () => {
    const file = join(bench.folder, "sample.jsonl");
    writeFileSync(file, recording());
    const first = await bench.run(["decode", "--agent", "scripted", file]);
    const second = await bench.run(["decode", "--agent", "scripted", file]);
    expect(first.code).toBe(0);
    expect(second).toEqual(first);
    const events = lines(first.out);
    for (const event of events) expect(SluiceEvent.safeParse(event).error).toBeUndefined();
    expect(events.map((event) => event["sequence"])).toEqual(events.map((_, n) => n + 1));
    expect(new Set(events.map((event) => event["session_id"]))).toEqual(new Set(["sample"]));
    expect(events[2]).toMatchObject({
      type: "input.accepted",
      time: "1970-01-01T00:00:00.001Z",
      data: { content: [{ type: "text", text: "do it" }] },
    });
    const types = events.map((event) => event["type"]);
    expect(types.filter((type) => type === "turn.started").length).toBe(
      types.filter((type) => type === "turn.ended").length,
    );
    expect(types.at(-1)).toBe("process.ended");
  });

  it("reads standard input, and ends the process of a truncated recording", async () => {
    const rows = [
      { t: 0, dir: "in", raw: JSON.stringify({ type: "prompt", id: "inp_x", text: "do it" }) },
      { t: 5, dir: "out", raw: JSON.stringify({ type: "text.started", id: "t1" }) },
      { t: 6, dir: "out", raw: JSON.stringify({ type: "text.delta", id: "t1", text: "half a" }) },
    ];
    const input = rows.map((row) => JSON.stringify(row)).join("\n");
    const { out, code } = await bench.run(["decode", "--agent", "scripted", "-"], { input: `${input}\n` });
    expect(code).toBe(0);
    expect(lines(out).slice(-3)).toMatchObject([
      { type: "item.completed", data: { item: { status: "failed", content: [{ text: "half a" }] } } },
      { type: "turn.ended", data: { turn_id: "turn_1", status: "failed", stop_reason: "agent_lost" } },
      { type: "process.ended", data: { reason: "lost" } },
    ]);
  });

  it("has the source of each answer", async () => {
    const call = { id: "c1", name: "shell", input: { command: "ls" } };
    const rows = [
      sent({ type: "prompt", id: "inp_x", text: "do it" }),
      out({ type: "tool.called", ...call }),
      out({ type: "permission.asked", ...call, id: "p1", call: "c1" }),
      sent({ type: "permission", id: "p1", reply: "reject", message: "no" }),
      out({ type: "tool.ended", id: "c1", output: "denied", failed: true }),
      sent({ type: "interrupt" }),
      out({ type: "turn.ended", turn: 1, stop_reason: "interrupted" }),
    ];
    const input = rows.map((row) => `${JSON.stringify(row)}\n`).join("");
    const events = lines((await bench.run(["decode", "--agent", "scripted", "-"], { input })).out);
    expect(events.find((event) => event["type"] === "permission.resolved")).toMatchObject({
      data: { status: "denied" },
    });
    expect(events.map((event) => event["type"])).toContain("interrupt.requested");
    expect(events.find((event) => event["type"] === "turn.ended")).toMatchObject({
      data: { status: "interrupted" },
    });
  });

  it.each([
    ["an unknown agent", ["decode", "--agent", "scriptd", "x"], 1, /Did you mean "scripted"/],
    ["a file that is not there", ["decode", "--agent", "scripted", "nowhere.jsonl"], 1, /nowhere\.jsonl/],
    ["no agent", ["decode", "x"], 2, /--agent/],
  ])("explains %s", async (_name, args, code, message) => {
    const ended = await bench.run(args);
    expect(ended.err).toMatch(message);
    expect(ended.code).toBe(code);
  });
});

describe("sluice doctor", () => {
  it("reports the state of this machine", async () => {
    const { code, out } = await bench.run(["doctor", "--json", "--server", "http://127.0.0.1:9"]);
    expect(code).toBe(0);
    expect(JSON.parse(out)).toMatchObject({
      node: { ok: true, version: process.versions.node },
      sqlite: { ok: true },
      data: { ok: true, folder: bench.data, sessions: expect.any(Number) as number },
      server: { ok: false, url: "http://127.0.0.1:9" },
      agents: expect.arrayContaining([expect.objectContaining({ id: "scripted", ok: true })]) as unknown[],
      sandboxes: [
        { id: "bwrap", isolated: true },
        { id: "docker", isolated: true },
        { id: "local", ok: true, isolated: false },
      ],
      defaultSandbox: "bwrap",
    });
    expect((await bench.run(["doctor"])).out).toMatch(/✓ scripted/);
  });
});

describe("the help", () => {
  it.each([["run"], ["serve"], ["sessions"], ["tail"], ["export"], ["decode"], ["doctor"]])(
    "of %s has examples and exit codes",
    async (command) => {
      const { code, out } = await bench.run([command, "--help"]);
      expect(code).toBe(0);
      expect(out).toContain("Examples:\n");
      expect(out).toContain(`  sluice ${command}`);
      expect(out).toContain("Exit codes: ");
      for (const line of out.split("\n")) expect(line.length).toBeLessThanOrEqual(120);
    },
  );

  it("is the output without a command", async () => {
    const { out, err } = await bench.run([]);
    expect(out + err).toContain("Commands:");
  });
});
