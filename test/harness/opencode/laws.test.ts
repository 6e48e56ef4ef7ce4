import * as fc from "fast-check";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { SpoolLine } from "../../../src/contract/index.ts";
import { opencode } from "../../../src/harness/opencode/harness.ts";
import type { Harness, HarnessFact } from "../../../src/harness/port.ts";
import { decodeRecording, parseRecording } from "../../../src/harness/recording.ts";
import { sample } from "./sample.ts";
import { prompt, sse, play, afterSample } from "./played.ts";

describe("OpenCode's output", () => {
  it("is decoded without a throw and twice the same, also where it is cut or changed", () => {
    const line = fc.constantFrom(...sample);
    const cut = fc
      .tuple(line, fc.nat())
      .map(([line, at]) => withText(line, line.text.slice(0, at % (line.text.length + 1))));
    const changed = fc
      .tuple(line, fc.nat(), fc.constantFrom("null", "[]", "{}", "1", '""', "true", '"constructor"'))
      .map(([line, at, other]) => {
        const { text } = line;
        const spots = [...text.matchAll(/:(\[[^\][]*\]|\{[^{}]*\}|"[^"]*"|\d+|null|true|false)/g)];
        const spot = spots[at % spots.length];
        if (spot === undefined) return line;
        return withText(
          line,
          `${text.slice(0, spot.index)}:${other}${text.slice(spot.index + spot[0].length)}`,
        );
      });
    fc.assert(
      fc.property(fc.array(fc.oneof(line, cut, changed), { maxLength: 60 }), (lines) => {
        expect(play(lines)).toEqual(play(lines));
      }),
      { numRuns: 300 },
    );
  });

  it("may come twice, as it does when the stream of events was lost, and is told once", () => {
    const folder = join(import.meta.dirname, "../recordings/opencode");
    for (const name of readdirSync(folder).filter((name) =>
      /^serve_(bash|edit|todo|write|subagent|text|thinking|parallel)/.test(name),
    )) {
      const lines = parseRecording(readFileSync(join(folder, name), "utf8"));
      const twice = lines.flatMap((line) => (isWhole(line) ? [line, line] : [line]));
      expect(factsOf(twice), name).toEqual(factsOf(lines));
    }
  });

  it("is made whole by a text's end where deltas were lost with the stream", () => {
    const opened = play(sample.slice(0, 13)).state;
    const lost = delta("prt_2", " twice");
    const { facts } = play(
      [sse("server.connected", {}), lost, ended("prt_2", "I look. And look twice")],
      opened,
    );
    const deltas = facts.flatMap((fact) => (fact.type === "item.delta" ? [fact.data.delta] : []));
    expect(deltas).toEqual([" And look twice"]);
    expect(facts.at(-1)).toMatchObject({ data: { item: { content: [{ text: "I look. And look twice" }] } } });
  });

  it("is not taken for the end of a prompt that has not arrived yet", () => {
    const late = afterSample();
    const idle = sse("session.idle", { sessionID: "ses_1" });
    const early = play([prompt("ses_1"), idle, idle], late);
    expect(early.facts).toEqual([]);
    const user = sse("message.updated", { info: { id: "msg_9", role: "user", sessionID: "ses_1" } });
    expect(play([user, idle, idle], early.state).facts.map(({ type }) => type)).toEqual(["turn.ended"]);
  });

  it("is about the session that was spoken to last", () => {
    const lines = ["ses_1", "ses_8"].flatMap((sessionID, index) => [
      prompt(sessionID),
      sse("message.updated", { info: { id: `msg_8${index}`, role: "user", sessionID } }),
      prompt("ses_9"),
      sse("session.idle", { sessionID: "ses_9" }),
      sse("session.idle", { sessionID }),
    ]);
    const { facts } = play(lines, afterSample());
    expect(facts.map((fact) => [fact.type, "native_session_id" in fact && fact.native_session_id])).toEqual([
      ["turn.ended", false],
      ["session.started", "ses_8"],
      ["turn.ended", false],
    ]);
  });

  it("is told to stop once more where the first abort came too early", () => {
    const begun = play(sample.slice(0, 5)).state;
    const abort: SpoolLine = {
      dir: "in",
      text: JSON.stringify({ method: "POST", path: "/session/ses_1/abort" }),
      at: 0,
    };
    const { state } = play([abort], begun);
    const { replies } = opencode.decode(state, sample[5] as SpoolLine);
    expect(replies).toEqual(['{"method":"POST","path":"/session/ses_1/abort"}']);
  });

  it("ends a turn whose prompt was refused, or could not even become a message", () => {
    const told = play(sample.slice(0, 4)).state;
    const refused: SpoolLine = {
      dir: "out",
      text: JSON.stringify({
        method: "POST",
        path: "/session/ses_1/prompt_async",
        status: 400,
        body: '{"data":{"message":"Expected array"}}',
      }),
      at: 0,
    };
    const broken = sse("session.error", {
      sessionID: "ses_1",
      error: { name: "UnknownError", data: { message: "Agent not found" } },
    });
    const endsOf = (line: SpoolLine): unknown[] =>
      play([line], told).facts.flatMap((fact) =>
        fact.type === "turn.ended" ? [fact.data.error?.message] : [],
      );
    expect(endsOf(refused)).toEqual(["Expected array"]);
    expect(endsOf(broken)).toEqual(["Agent not found"]);
  });

  it("settles the requests that an answer for the whole session covers", () => {
    const replied = sse("permission.replied", { sessionID: "ses_1", requestID: "per_8", reply: "always" });
    const { facts, state } = play([asked("per_8"), replied], play(sample.slice(0, 6)).state);
    expect(facts.at(-1)).toMatchObject({
      type: "permission.resolved",
      data: { action: "bash", status: "approved", metadata: { by: "agent" } },
    });
    expect(Object.keys(state.transcript.asks)).toEqual([]);
  });
});

/** An event with the whole present state of something. */
function isWhole({ dir, text }: SpoolLine): boolean {
  return dir === "sse" && /"type":"message\.(part\.)?updated"/.test(text);
}

function withText(line: SpoolLine, text: string): SpoolLine {
  return { ...line, text };
}

function delta(partID: string, delta: string): SpoolLine {
  return sse("message.part.delta", { sessionID: "ses_1", messageID: "msg_2", partID, field: "text", delta });
}

function ended(id: string, text: string): SpoolLine {
  return sse("message.part.updated", {
    part: { id, messageID: "msg_2", sessionID: "ses_1", type: "text", text, time: { start: 1, end: 2 } },
  });
}

function factsOf(lines: readonly SpoolLine[]): HarnessFact[] {
  return [...decodeRecording(opencode as Harness, lines)].flatMap(({ facts }) => facts);
}

function asked(id: string): SpoolLine {
  return sse("permission.asked", {
    id,
    sessionID: "ses_1",
    permission: "bash",
    patterns: ["ls"],
    metadata: {},
    always: [],
  });
}
