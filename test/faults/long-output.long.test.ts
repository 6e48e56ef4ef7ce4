import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { EventOf } from "../../src/contract/index.ts";
import {
  ofType,
  openEngine,
  readAll,
  runTurn,
  say,
  script,
  type TestEngine,
  waitFor,
} from "../support/engine.ts";
import { expectLawful } from "../support/laws.ts";
import { shAgent } from "./shell-agent.ts";

const MB = 1024 * 1024;

/**
 * A NUL takes six characters of JSON. So these outputs are longer as JSON than a string can be, though not longer than
 * a line may be.
 */
describe("output that is longer as JSON than any string", { timeout: 240_000 }, () => {
  let test: TestEngine;
  beforeEach(async () => {
    test = await openEngine();
  });
  afterEach(() => test.close());

  it("of a tool: the result is cut and says so, a restart reads it again, and every stop works", async () => {
    await test.engine.create("s", { agent: "scripted", sandbox: "local" });
    await say(test.engine, "s", script({ shell: "head -c 95000000 /dev/zero; echo printed; sleep 1000" }));
    await waitFor(test.log, "s", "item.delta", {
      where: ({ data }) => data.delta.includes("printed"),
      timeoutMs: 200_000,
    });
    await test.restart();
    await test.engine.interrupt("s");
    const ended = await waitFor(test.log, "s", "turn.ended", { timeoutMs: 100_000 });
    expect(ended.data.status).toBe("interrupted");
    const result = await resultOf("s");
    expect(result.length).toBeGreaterThan(MB);
    expect(result).toMatch(
      /\n\[the text was cut after \d+ characters; the deltas of the item have the rest\]$/,
    );
    expect((await runTurn(test, "s", script({ say: "after" }))).data.status).toBe("completed");
    await test.engine.terminate("s");
    await test.engine.remove("s");
    expect(await test.log.find("s")).toBeUndefined();
  });

  it("as one line that no decoder understands: the line is cut, and the turn ends", async () => {
    const program = "read -r prompt; head -c 95000000 /dev/zero; echo; echo end; read -r next; sleep 1000";
    await test.restart({ harnesses: [unparsing(shAgent(program))] });
    await test.engine.create("s", { agent: "shell", sandbox: "local" });
    expect((await runLongTurn("s", "go")).data.status).toBe("completed");
    const events = await readAll(test.log, "s", true);
    expectLawful(events);
    const [unparsed] = ofType(events, "agent.unparsed");
    expect(unparsed?.data.raw_hash).toMatch(/^[0-9a-f]{64}$/);
    expect(String(unparsed?.raw)).toMatch(/\[the line was cut after \d+ of 95000000 characters\]$/);
  });

  it("as one item of an agent: the item is cut, and an error says so", async () => {
    const program = "read -r prompt; head -c 95000000 /dev/zero; echo; echo end; read -r next; sleep 1000";
    await test.restart({ harnesses: [shAgent(program)] });
    await test.engine.create("s", { agent: "shell", sandbox: "local" });
    expect((await runLongTurn("s", "go")).data.status).toBe("completed");
    const events = await readAll(test.log, "s");
    expectLawful(events);
    const completed = ofType(events, "item.completed").find(({ data }) => data.item.role === "assistant");
    expect(JSON.stringify(completed)).toMatch(/\[the text was cut after \d+ characters\]/);
    expect(ofType(events, "error").map(({ data }) => data.code)).toContain("too_large");
  });

  async function runLongTurn(session: string, text: string): Promise<EventOf<"turn.ended">> {
    const { turnId, after } = await say(test.engine, session, text);
    return waitFor(test.log, session, "turn.ended", {
      after,
      where: ({ data }) => data.turn_id === turnId,
      timeoutMs: 200_000,
    });
  }

  /** The output of the first tool, read page by page: all deltas together do not fit into the memory of a test. */
  async function resultOf(session: string): Promise<string> {
    const { data } = await waitFor(test.log, session, "item.completed", {
      where: ({ data }) => data.item.kind === "tool_result",
    });
    const [part] = data.item.content;
    return part?.type === "tool_result" ? String(part.output) : "";
  }
});

/** The agent, whose decoder knows no line but `end`. */
function unparsing(agent: ReturnType<typeof shAgent>): ReturnType<typeof shAgent> {
  return {
    ...agent,
    decode: (state, line) => {
      if (line.dir === "out" && line.text !== "end") throw new Error("unknown");
      return agent.decode(state, line);
    },
  };
}
