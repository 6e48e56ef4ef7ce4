import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Exchange, formatExchange } from "../../src/gateway/cassette/format.ts";
import { script, Workbench } from "./workbench.ts";

const event = (data: unknown): string => `data: ${JSON.stringify(data)}\n\n`;

function exchange(word: string, said: string): Exchange {
  return {
    v: 1,
    wire: "anthropic",
    provider: "anthropic",
    key: `key of ${word}`,
    ordinal: 0,
    request: {
      method: "POST",
      path: "/v1/messages",
      model: "claude-x",
      body_sha256: "0",
      shape: { messages: [{ role: "user", content: `#${word}` }] },
    },
    response: {
      status: 200,
      headers: { "content-type": ["text/event-stream"] },
      chunks: [
        [1, event({ type: "message_start", message: { model: "claude-x", usage: { input_tokens: 7 } } })],
        [2, event({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text: said } })],
        [
          3,
          event({ type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 2 } }),
        ],
      ],
    },
  };
}

describe("sluice cassette", () => {
  let bench: Workbench;
  beforeEach(() => {
    bench = new Workbench();
    write("a.jsonl", exchange("one", "hello"), exchange("two", "bye"));
  });
  afterEach(() => bench.close());
  const write = (name: string, ...exchanges: Exchange[]): void =>
    writeFileSync(join(bench.work, name), exchanges.map(formatExchange).join(""));

  it("lists the exchanges of a file, and the files of a folder", async () => {
    const listed = await bench.run(["cassette", "list", "a.jsonl"]);
    expect(listed).toMatchObject({ code: 0 });
    expect(listed.out.split("\n")[1]).toBe("  2  200  POST /v1/messages  claude-x  7 in 2 out  end_turn");
    const { out } = await bench.run(["cassette", "list", "--json", "a.jsonl"]);
    expect(JSON.parse(out.split("\n")[0] ?? "")).toMatchObject({ number: 1, usage: { output_tokens: 2 } });
    writeFileSync(join(bench.work, "b.jsonl"), "root:x:0\n");
    const folder = await bench.run(["cassette", "list", "."]);
    expect(folder.out).toMatch(/a\.jsonl {2}2 exchanges\nb\.jsonl {2}.*is no cassette/);
  });

  it("shows an exchange, and refuses a number that is none", async () => {
    const shown = await bench.run(["cassette", "show", "a.jsonl", "1"]);
    expect(shown).toMatchObject({ code: 0, out: expect.stringContaining('"text":"hello"') });
    for (const number of ["0", "3", "-1", "x"])
      expect(await bench.run(["cassette", "show", "a.jsonl", "--", number])).toMatchObject({
        code: 2,
        err: expect.stringContaining("it has 2, from 1"),
      });
    expect(await bench.run(["cassette", "show", "none.jsonl", "1"])).toMatchObject({
      code: 1,
      err: expect.stringContaining("is not there"),
    });
  });

  it("names what differs between two cassettes", async () => {
    write("b.jsonl", exchange("one", "other"), exchange("three", "bye"), exchange("four", "x"));
    const { code, out } = await bench.run(["cassette", "diff", "a.jsonl", "b.jsonl"]);
    expect(code).toBe(1);
    expect(out).toBe(
      [
        "1  POST /v1/messages  has another answer",
        "2  POST /v1/messages  differs in its request at /messages/0/content",
        "3  POST /v1/messages  is only in the second\n",
      ].join("\n"),
    );
    expect(await bench.run(["cassette", "diff", "a.jsonl", "a.jsonl"])).toMatchObject({ code: 0, out: "" });
  });

  it("finds and removes private data that was put into a file later", async () => {
    const planted = `mail jo@corp.io, key ghp_${"a1".repeat(15)}`;
    write("b.jsonl", exchange("one", "clean"), exchange("two", planted));
    const check = await bench.run(["cassette", "scrub", "--check", "a.jsonl", "b.jsonl"]);
    expect(check).toMatchObject({ code: 1, out: "b.jsonl has private data in exchange 2\n" });
    expect(readFileSync(join(bench.work, "b.jsonl"), "utf8")).toContain("ghp_");
    expect(await bench.run(["cassette", "scrub", "b.jsonl"])).toMatchObject({ code: 0 });
    const clean = readFileSync(join(bench.work, "b.jsonl"), "utf8");
    expect(clean).not.toMatch(/ghp_|jo@corp/);
    expect(clean).toContain("clean");
    expect(await bench.run(["cassette", "scrub", "--check", "b.jsonl"])).toMatchObject({ code: 0 });
  });
});

describe("sluice run with a cassette", () => {
  let bench: Workbench;
  beforeEach(() => {
    bench = new Workbench();
  });
  afterEach(() => bench.close());

  it.each([
    [["--record", "a", "--replay", "b"], {}, /choose one/],
    [["--replay-speed", "1"], {}, /needs --replay/],
    [["--replay", "a", "--replay-speed", "fast"], {}, /from 0 \(at once\) to 1000/],
    [["--replay", "a", "--replay-speed", "-1"], {}, /from 0 \(at once\) to 1000/],
    [["--replay", ""], {}, /name a file/],
    [[], { SLUICE_CASSETTE: "replay:" }, /SLUICE_CASSETTE: expected a file/],
  ])("refuses %j", async (options, env, expected) => {
    const { code, err } = await bench.run(["run", "--agent", "scripted", ...options, "hi"], { env });
    expect([code, err]).toEqual([2, expect.stringMatching(expected)]);
  });

  it("refuses an agent without a model, and a session that exists", async () => {
    const refused = await bench.run([
      "run",
      "--agent",
      "scripted",
      "--sandbox",
      "local",
      "--record",
      "a.jsonl",
      "hi",
    ]);
    expect(refused).toMatchObject({ code: 1, err: expect.stringContaining('Leave "cassette" out') });
    const say = script({ say: "x" });
    const first = await bench.run([
      "run",
      "--agent",
      "scripted",
      "--sandbox",
      "local",
      "--session",
      "s",
      say,
    ]);
    expect(first.code).toBe(0);
    const again = await bench.run(["run", "--session", "s", "--replay", "a.jsonl", say]);
    expect(again).toMatchObject({ code: 2, err: expect.stringContaining("are for new ones") });
  });

  it("refuses a file that cannot serve before the agent starts", async () => {
    mkdirSync(join(bench.work, "folder"));
    writeFileSync(join(bench.work, "passwd"), "root:x:0:0:the text\n");
    writeFileSync(join(bench.work, "full.jsonl"), formatExchange(exchange("a", "b")));
    const cases = [
      ["--replay", "none.jsonl", /Record it first/],
      ["--replay", "folder", /no plain file/],
      ["--replay", "passwd", /is no cassette/],
      ["--record", "passwd", /is no cassette/],
      ["--record", "full.jsonl", /has recordings already/],
      ["--record", "nowhere/a.jsonl", /Make the folder first/],
    ] as const;
    for (const [option, file, expected] of cases) {
      const { code, err } = await bench.run([
        "run",
        "--agent",
        "claude",
        "--sandbox",
        "local",
        option,
        file,
        "hi",
      ]);
      // A machine without the CLI says so first.
      if (/is not installed/.test(err)) continue;
      expect([code, err]).toEqual([1, expect.stringMatching(expected)]);
      expect(err).not.toContain("the text");
    }
  });

  it("leaves agents without a model alone when SLUICE_CASSETTE is set", async () => {
    const env = { SLUICE_CASSETTE: "replay:none.jsonl" };
    const say = script({ say: "fine" });
    const ran = await bench.run(["run", "--agent", "scripted", "--sandbox", "local", say], { env });
    expect(ran).toMatchObject({ code: 0, out: expect.stringContaining("fine") });
  });
});
