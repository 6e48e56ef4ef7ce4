import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { decodeEvents } from "../../../src/cli/decode-events.ts";
import type { SluiceEvent } from "../../../src/contract/index.ts";
import { amp } from "../../../src/harness/amp/harness.ts";
import { coverageOf } from "../../../src/harness/coverage.ts";
import type { Harness, HarnessFact } from "../../../src/harness/port.ts";
import { decodeRecording, parseRecording, recordedContext } from "../../../src/harness/recording.ts";
import { ofType } from "../../support/engine.ts";
import { expectLawful } from "../../support/laws.ts";

const FOLDER = join(import.meta.dirname, "../recordings/amp");
const RECORDINGS = readdirSync(FOLDER).filter((name) => name.endsWith(".jsonl"));

describe("Amp's recordings, none of which got past the login", () => {
  it.each(RECORDINGS)("%s leaves nothing unparsed, and has one end with its cause", (name) => {
    const facts = factsOf(name);
    expect(facts.filter((fact) => fact.type === "agent.unparsed")).toEqual([]);
    const ends = facts.filter((fact) => fact.type === "turn.ended");
    expect(ends).toHaveLength(1);
    expect(ends[0]?.data).toMatchObject({ status: "failed" });
    expect(facts.filter((fact) => fact.type === "error")).toHaveLength(1);
  });

  it("tells a missing key from a server that cannot be reached and from an error of its own", () => {
    const endOf = (name: string) => factsOf(name).find((fact) => fact.type === "turn.ended")?.data;
    expect(endOf("no_api_key.jsonl")).toMatchObject({
      stop_reason: "model_error",
      error: { code: "unauthorized" },
    });
    expect(endOf("connection_refused.jsonl")).toMatchObject({
      stop_reason: "retries_exhausted",
      error: { code: "network", message: "Couldn't connect to the Amp server at http://127.0.0.1:9." },
    });
    expect(endOf("probe_server.jsonl")).toMatchObject({
      stop_reason: "end_turn",
      error: { code: "internal" },
    });
  });

  it.each(RECORDINGS)("%s: the log of it has one turn, which failed, and the end of the process", (name) => {
    const text = readFileSync(join(FOLDER, name), "utf8");
    const events = [...decodeEvents(amp as Harness, text, "recording")].map(
      ({ body }) => JSON.parse(body) as SluiceEvent,
    );
    expect(ofType(events, "turn.started")).toHaveLength(1);
    expect(ofType(events, "turn.ended")).toMatchObject([{ data: { status: "failed" } }]);
    expect(ofType(events, "error")).toHaveLength(1);
    expect(ofType(events, "process.ended")).toHaveLength(1);
    expectLawful(events);
  });

  it("lets nothing of the login page's address into a fact", () => {
    expect(JSON.stringify(factsOf("no_api_key.jsonl"))).not.toContain("authToken");
  });

  it.each(RECORDINGS)("%s: the prompt on the command line is overheard", (name) => {
    const [meta] = parseRecording(readFileSync(join(FOLDER, name), "utf8"));
    const state = amp.initial(recordedContext("amp"));
    expect(meta && amp.overhear?.(state, meta)).toEqual({
      type: "prompt",
      inputId: "",
      content: [{ type: "text", text: "hi" }],
    });
  });

  it.each(RECORDINGS)("%s: the same facts from a state that went through JSON after every line", (name) => {
    let state = amp.initial(recordedContext("amp"));
    const facts: HarnessFact[] = [];
    for (const line of parseRecording(readFileSync(join(FOLDER, name), "utf8"))) {
      const decoded = amp.decode(state, line);
      facts.push(...decoded.facts);
      state = JSON.parse(JSON.stringify(decoded.state));
    }
    expect(facts).toEqual(factsOf(name));
  });
});

describe("Amp's coverage", () => {
  it("is all that the CLI can do", () => {
    const missing = Object.entries(coverageOf(amp as Harness)).flatMap(([name, has]) => (has ? [] : [name]));
    expect(missing).toEqual(["questions", "compaction", "retries"]);
  });
});

function factsOf(name: string): HarnessFact[] {
  const lines = parseRecording(readFileSync(join(FOLDER, name), "utf8"));
  return [...decodeRecording(amp as Harness, lines)].flatMap(({ facts }) => facts);
}
