import { describe, expect, it } from "vitest";

import type { HarnessFact } from "../../../src/harness/port.ts";
import { decodeRecording, recordedContext } from "../../../src/harness/recording.ts";
import { ofType } from "../../support/engine.ts";
import { assistantTexts, expectItemsClose, expectTurnsEnd } from "../../support/laws.ts";
import { eventsOf, linesOf, readerOf, RECORDINGS } from "./recorded.ts";

describe("the recordings of agents that speak ACP", () => {
  it.each(RECORDINGS)("%s: nothing unparsed, everything closed, one end per prompt", (name) => {
    const events = eventsOf(name);
    expect(ofType(events, "agent.unparsed")).toEqual([]);
    expectTurnsEnd(events);
    expectItemsClose(events);
    const prompts = linesOf(name).filter(
      ({ dir, text }) => dir === "in" && text.includes('"session/prompt"'),
    );
    const isPrinted = prompts.length === 0;
    const turns = ofType(events, "turn.started");
    expect(turns.length).toBe(isPrinted ? Math.min(1, turns.length) : prompts.length);
  });

  it.each(RECORDINGS)("%s: the text is the model's, with replays once", (name) => {
    expect(assistantTexts(eventsOf(name)).join("")).toBe(sentText(name));
  });

  it.each(RECORDINGS)("%s: the same facts from a state that went through JSON after every line", (name) => {
    const harness = readerOf(name);
    const whole = [...decodeRecording(harness, linesOf(name))].flatMap(({ facts }) => facts);
    let state = harness.initial(recordedContext(harness.id));
    const facts: HarnessFact[] = [];
    for (const line of linesOf(name)) {
      const decoded = harness.decode(state, line);
      facts.push(...decoded.facts);
      state = JSON.parse(JSON.stringify(decoded.state));
    }
    expect(facts).toEqual(whole);
  });
});

/** The model's text, copied from the lines by hand, without replayed and cut parts. */
function sentText(name: string): string {
  const cut = { "grok/streaming_json_malformed_stream_cut": "This sentence is cut off by " }[name];
  if (cut !== undefined) return cut;
  let isReplay = false;
  const texts = linesOf(name).flatMap(({ dir, text }) => {
    if (dir === "in" && text.includes('"session/load"')) isReplay = true;
    if (dir !== "out") return [];
    const line = JSON.parse(text) as Line;
    if (isReplay && line.id !== undefined) isReplay = false;
    if (isReplay) return [];
    const { update } = line.params ?? {};
    if (update?.sessionUpdate === "agent_message_chunk") return [update.content?.text ?? ""];
    if (line.type === "text") return [line.data ?? ""];
    if (line.type === "message" && line.role === "assistant") return [line.content ?? ""];
    return line.event?.delta?.type === "text_delta" ? [line.event.delta.text ?? ""] : [];
  });
  return texts.join("");
}

interface Line {
  id?: unknown;
  type?: string;
  role?: string;
  data?: string;
  content?: string;
  event?: { delta?: { type?: string; text?: string } };
  params?: { update?: { sessionUpdate?: string; content?: { text?: string } } };
}
