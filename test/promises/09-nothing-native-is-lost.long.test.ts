import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { assistantTexts, expectLawful } from "../support/laws.ts";
import {
  ofType,
  openEngine,
  readAll,
  runTurn,
  script,
  SCRIPTED,
  type TestEngine,
} from "../support/engine.ts";

describe("promise 9: nothing native is lost", () => {
  let test: TestEngine;
  beforeEach(async () => {
    test = await openEngine();
    await test.engine.create("s", SCRIPTED);
  });
  afterEach(() => test.close());

  it("keeps unknown native lines, and the turn goes on", async () => {
    const lines = [
      "Warning: something",
      '{"type":"brand.new","x":1}',
      '{"half":',
      "[1,2]",
      '"string"',
      "null",
      "\u2028",
    ];
    await runTurn(
      test,
      "s",
      script({ say: "before" }, ...lines.map((raw) => ({ raw })), { stderr: "noise\n" }, { say: "after" }),
    );
    const events = await readAll(test.log, "s", true);
    expectLawful(events);
    expect(ofType(events, "agent.unparsed").map((event) => event.raw)).toEqual(lines);
    expect(assistantTexts(events)).toEqual(["before", "after"]);
  });

  it("takes bytes that are not UTF-8", async () => {
    await runTurn(
      test,
      "s",
      script({ rawBytes: Buffer.from([0x7b, 0xff, 0xc3, 0x28, 0x0a]).toString("base64") }, { say: "fine" }),
    );
    const events = await readAll(test.log, "s");
    expectLawful(events);
    expect(ofType(events, "agent.unparsed")[0]?.data.raw_hash).toMatch(/^[0-9a-f]{64}$/);
    expect(assistantTexts(events)).toEqual(["fine"]);
  });

  it("takes a line of 100 MB, whole", { timeout: 120_000 }, async () => {
    const size = 100 * 1024 * 1024;
    await runTurn(
      test,
      "s",
      script({ shell: `head -c ${size} /dev/zero | tr '\\0' x` }, { say: "still here" }),
    );
    const page = await test.log.read("s", { after: 0, limit: 1000 });
    let result: string | undefined;
    for (let after = page.at(-1)?.sequence ?? 0, events = page; ;) {
      for (const stored of events) {
        after = stored.sequence;
        if (stored.type === "item.completed" && stored.body.includes('"kind":"tool_result"'))
          result = stored.body;
      }
      events = await test.log.read("s", { after, limit: 1000 });
      if (events.length === 0) break;
    }
    const item = (JSON.parse(result ?? "{}") as { data: { item: { content: { output?: string }[] } } }).data
      .item;
    expect(item.content[0]?.output?.length).toBe(size);
  });

  it("takes a last line without its newline", async () => {
    const raw = Buffer.from("the last words").toString("base64");
    await test.engine.send("s", {
      content: [{ type: "text", text: script({ rawBytes: raw }, { exit: 1 }) }],
      via: "test",
    });
    await test.log.moved("s", 0, { signal: AbortSignal.timeout(5000) });
    for (;;) {
      const events = await readAll(test.log, "s", true);
      if (events.at(-1)?.type !== "session.ended") {
        await test.log.moved("s", events.length, { signal: AbortSignal.timeout(20_000) });
        continue;
      }
      expectLawful(events);
      expect(ofType(events, "agent.unparsed").map((event) => event.raw)).toEqual(["the last words"]);
      return;
    }
  });
});
