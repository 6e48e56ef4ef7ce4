import { HttpAgent } from "@ag-ui/client";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { toFrameTexts } from "../../../src/dialects/ag-ui/frames.ts";
import { type AgUiBench, input, openAgUi, toTold } from "../../http/ag-ui/ag-ui-bench.ts";
import { readAll, script } from "../../support/engine.ts";

const LARGE = 12_000_000;

describe("seed 000, frames", () => {
  let bench: AgUiBench;
  beforeAll(async () => {
    bench = await openAgUi();
  });
  afterAll(() => bench.close());

  it("a replayed RUN_STARTED carries the protocol version of the live one", async () => {
    const body = input("versions", script({ say: "hi" }), { protocolVersion: "1.0" });
    const live = await bench.run(body);
    expect(live[0]).toMatchObject({ type: "RUN_STARTED", protocolVersion: "1.0" });
    const query = `threadId=versions&runId=${String(body["runId"])}&offset=-1&follow=false`;
    const replayed = toTold(await (await bench.call("GET", `/ag-ui/scripted?${query}`)).text());
    expect(replayed[0]).toEqual(live[0]);
    const silent = await bench.run(input("versions", script({ say: "hi" })));
    expect(silent[0]).not.toHaveProperty("protocolVersion");
  });

  it.each([
    ["dies", { exit: 3 }],
    ["has a model that cannot go on", { fail: { kind: "terminal" } }],
  ])(
    "a thread whose agent %s goes on with the next run, by its name and by *.session-id",
    async (_how, end) => {
      const thread = `survives-${Object.keys(end)[0]}`;
      const failed = await bench.run(input(thread, script({ say: "first" }, end)));
      expect(failed.at(-1)).toMatchObject({ type: "RUN_ERROR" });
      const told = failed.find(({ name }) => name === "scripted.session-id");
      const sessionId = (told?.["value"] as { sessionId: string } | undefined)?.sessionId;
      expect(sessionId).toBeTypeOf("string");
      const next = await bench.run(input(thread, script({ say: "$history" })));
      expect(next.at(-1)).toMatchObject({ type: "RUN_FINISHED" });
      expect(JSON.stringify(next)).toContain("first");
      const elsewhere = input(`${thread}-elsewhere`, script({ say: "on" }), {
        forwardedProps: { sessionId },
      });
      const last = await bench.run(elsewhere);
      expect(last.at(-1)).toMatchObject({ type: "RUN_FINISHED" });
    },
  );

  it("a tool result of 12 MB reaches the official client, shortened with a note; the log has the whole", async () => {
    const prompt = script({ shell: `head -c ${LARGE} /dev/zero | tr '\\0' x` }, { say: "done" });
    const agent = new HttpAgent({ url: `${bench.url}/ag-ui/scripted`, threadId: "large" });
    agent.addMessage({ id: "u1", role: "user", content: prompt });
    const { newMessages } = await agent.runAgent();
    const result = newMessages.find(({ role }) => role === "tool")?.content as string;
    expect(result.length).toBeLessThan(10 * 1024 * 1024);
    const [, path = ""] = /shortened by sluice: .* (\/v1\/sessions\/\S+)\]$/.exec(result) ?? [];
    const page = await (await bench.call("GET", path)).json();
    const [whole] = page.events[0].data.item.content;
    expect(whole.output).toHaveLength(LARGE);
    expect(newMessages.at(-1)).toMatchObject({ role: "assistant", content: "done" });
    expect(JSON.stringify(await readAll(bench.test.log, "large")).length).toBeGreaterThan(LARGE);
  });

  it("a delta of 12 MB comes in parts, none of which cuts a character", () => {
    const delta = "😀".repeat(LARGE / 2);
    const parts = toFrameTexts({ type: "TEXT_MESSAGE_CONTENT", messageId: "m", delta }, { session: "s" });
    for (const part of parts) expect(part.length).toBeLessThan(10 * 1024 * 1024);
    const told = parts.map((part) => (JSON.parse(part) as { delta: string }).delta);
    expect(told.every((text) => Buffer.from(text).toString() === text)).toBe(true);
    expect(told.join("") === delta).toBe(true);
  });
});
