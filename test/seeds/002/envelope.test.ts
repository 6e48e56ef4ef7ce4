import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { EventOf } from "../../../src/contract/index.ts";
import type { Harness } from "../../../src/harness/port.ts";
import { script, waitFor } from "../../support/engine.ts";
import { type NdjsonBench, openNdjson, readRun } from "../../http/ndjson/ndjson-bench.ts";

/** Rules of the page that the other tests do not cover. */
describe("seed 002, to the letter", () => {
  let bench: NdjsonBench;
  beforeAll(async () => {
    bench = await openNdjson();
  });
  afterAll(() => bench.close());

  it("result is the tool's return value: an object stays an object, and text stays text", async () => {
    const { lines } = await bench.run(
      undefined,
      { shell: `echo '{"nodeId":"node_1","ports":[1,2]}'` },
      { shell: "echo plain; echo '{not json}'" },
      { shell: "echo 42" },
      { say: "done" },
    );
    const results = lines.flatMap((line) =>
      line.type === "step" && line.status === "succeeded" ? [line.result] : [],
    );
    expect(results).toEqual([{ nodeId: "node_1", ports: [1, 2] }, "plain\n{not json}\n", "42\n"]);
  });

  it("error stands in place of result where the model refused and said nothing, and no message is kept", async () => {
    const { lines } = await bench.run("refused", { refuse: "It is against the rules." });
    const error = { type: "error", code: "refusal", message: "It is against the rules." };
    expect(lines.filter(({ type }) => type !== "log")).toMatchObject([error]);
    const spoken = await bench.run("refused", { say: "I would rather not." }, { refuse: "rules" });
    expect(spoken.lines.at(-1)).toMatchObject({ type: "result", message: "I would rather not." });
    const kept = (await (await fetch(`${bench.url}/ndjson/conversations/refused`)).json()) as {
      messages: object[];
    };
    expect(kept.messages).toMatchObject([
      { role: "user" },
      { role: "user" },
      { role: "assistant", content: "I would rather not." },
    ]);
  });

  it("the limit of turns holds for a message that comes while another turn runs", async () => {
    const send = (prompt: string): Promise<Response> =>
      bench.post("/stream", { conversation: "queued", prompt, replayTurnLimit: 2 });
    for (const word of ["one", "two"]) await readRun(await send(word));
    const three = send(script({ shell: "until [ -e go ]; do sleep 0.02; done" }, { say: "three" }));
    await waitFor(bench.test.log, "queued", "item.completed", { where: isWaiting });
    const four = send(script({ say: "$history" }));
    const files = await bench.test.engine.files("queued");
    await files.write("go", "");
    await readRun(await three);
    const told = (await readRun(await four)).lines.at(-1);
    expect(told).toMatchObject({ type: "result", message: expect.stringMatching(/^two\n#script .*three/) });
  });
});

function isWaiting({ data }: EventOf<"item.completed">): boolean {
  return data.item.kind === "tool_call" && JSON.stringify(data.item.content).includes("until [ -e go ]");
}

/** A process that reads its prompt, reports a model request and then stays silent. */
const hung: Harness<null> = {
  id: "hung",
  title: "Hung",
  detect: async () => ({ installed: true }),
  launch: () => ({ argv: ["/bin/sh", "-c", 'while read -r line; do echo "$line"; done'], env: {} }),
  initial: () => null,
  decode: (state, line) => ({
    state,
    facts: line.dir === "out" ? [{ type: "model.started", data: { request_id: `mreq_${line.at}` } }] : [],
  }),
  encode: (_, command) => (command.type === "prompt" ? ["asked"] : undefined),
  sample: [],
};

it("seed 002, error: a model that does not answer in time is a model_timeout", async () => {
  const bench = await openNdjson({}, { harnesses: [hung as Harness] });
  try {
    await bench.test.engine.create("hung", { agent: "hung", silenceTimeoutMs: 300 });
    const { lines } = await readRun(await bench.post("/stream", { conversation: "hung", prompt: "hi" }));
    expect(lines.at(-1)).toMatchObject({ type: "error", code: "model_timeout" });
  } finally {
    await bench.close();
  }
});
