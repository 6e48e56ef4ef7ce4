import * as fc from "fast-check";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { ContentPart, SpoolLine } from "../../../src/contract/index.ts";
import { opencode } from "../../../src/harness/opencode/harness.ts";
import type { Harness, HarnessCommand, HarnessFact } from "../../../src/harness/port.ts";
import { decodeRecording, parseRecording, recordedContext } from "../../../src/harness/recording.ts";

type State = ReturnType<typeof opencode.initial>;

describe("what OpenCode is told", () => {
  const text = fc.string().map((words): ContentPart => ({ type: "text", text: `:${words}` }));
  const parts = fc.oneof(
    text,
    fc.constant<ContentPart>({ type: "image", path: "data:image/png;base64,AA==", mime: "image/png" }),
    fc.string({ minLength: 1 }).map((path): ContentPart => ({ type: "file_ref", path, action: "read" })),
  );
  const said = { inputId: fc.string(), content: fc.array(parts, { minLength: 1 }) };
  const permission = stateWith("permission");
  const question = stateWith("question");

  it.each<[string, State, fc.Arbitrary<HarnessCommand>]>([
    ["a prompt", afterSample(), fc.record({ type: fc.constant("prompt" as const), ...said })],
    [
      "a compaction",
      afterSample(),
      fc.constant({ type: "prompt", inputId: "inp_1", content: [{ type: "text", text: "/compact" }] }),
    ],
    ["more words", permission.state, fc.record({ type: fc.constant("steer" as const), ...said })],
    ["an interrupt", permission.state, fc.constant({ type: "interrupt" })],
    [
      "a decision",
      permission.state,
      fc.record(
        {
          type: fc.constant("permission" as const),
          id: fc.constant(permission.ask),
          reply: fc.constantFrom("once" as const, "always" as const, "reject" as const),
          message: fc.string(),
        },
        { requiredKeys: ["type", "id", "reply"] },
      ) as fc.Arbitrary<HarnessCommand>,
    ],
    [
      "an answer",
      question.state,
      fc.record(
        {
          type: fc.constant("question" as const),
          id: fc.constant(question.ask),
          answers: fc.array(fc.array(fc.string()), { minLength: 1 }),
        },
        { requiredKeys: ["type", "id"] },
      ) as fc.Arbitrary<HarnessCommand>,
    ],
  ])("%s is overheard as it was meant", (_, state, commands) => {
    fc.assert(
      fc.property(commands, (command) => {
        const lines = opencode.encode(state, command);
        if (!Array.isArray(lines)) throw new Error(`no words for ${command.type}`);
        expect(lines.map((text: string) => opencode.overhear?.(state, { dir: "in", text, at: 0 }))).toEqual([
          command,
        ]);
      }),
    );
  });

  it("waits until there is a session", () => {
    const state = opencode.initial(recordedContext("opencode"));
    expect(opencode.encode(state, { type: "prompt", inputId: "", content: [] })).toBe("later");
    expect(opencode.encode(state, { type: "interrupt" })).toBe("later");
    expect(opencode.encode(state, { type: "steer", inputId: "", content: [] })).toBeUndefined();
  });

  it("goes nowhere when nobody waits for it any more", () => {
    const state = afterSample();
    expect(opencode.encode(state, { type: "permission", id: permission.ask, reply: "once" })).toEqual([]);
    expect(opencode.encode(state, { type: "question", id: question.ask })).toEqual([]);
  });

  it("carries the model, the agent and the variant of its session", () => {
    const spec = {
      agent: "opencode",
      model: "anthropic/claude-opus-4-5",
      permissionMode: "plan",
      variant: "high",
    } as const;
    const first = opencode.initial({ ...recordedContext("opencode"), spec });
    const state = play(opencode.sample.slice(0, 2), first).state;
    const [line] = opencode.encode(state, {
      type: "prompt",
      inputId: "",
      content: [{ type: "text", text: "Hi" }],
    }) as string[];
    const { body } = JSON.parse(line ?? "{}") as { body?: unknown };
    expect(body).toEqual({
      model: { providerID: "anthropic", modelID: "claude-opus-4-5" },
      agent: "plan",
      variant: "high",
      parts: [{ type: "text", text: "Hi" }],
    });
  });

  it("gives each question its own choice, and those without one none", () => {
    const questions = ["One?", "Two?", "Three?"].map((question) => ({ question, options: [{ label: "a" }] }));
    const asked = sse("question.asked", { id: "que_9", sessionID: "ses_1", questions });
    const { state, facts } = play([asked], play(opencode.sample.slice(0, 5)).state);
    const ask = facts.flatMap((fact) => (fact.type === "question.requested" ? [fact.data] : []))[0];
    expect(ask).toMatchObject({ prompt: "One?\nTwo?\nThree?", options: ["a", "a", "a"] });
    const answer = (answers: string[][]): unknown => {
      const [line] = opencode.encode(state, {
        type: "question",
        id: ask?.question_id ?? "",
        answers,
      }) as string[];
      return (JSON.parse(line ?? "{}") as { body: { answers: unknown } }).body.answers;
    };
    expect(answer([["a"], ["b"]])).toEqual([["a"], ["b"], []]);
    expect(answer([["a", "b", "c"]])).toEqual([["a"], ["b"], ["c"]]);
  });
});

describe("what OpenCode says", () => {
  it("is decoded without a throw, whatever is cut or changed in it, and twice the same", () => {
    const line = fc.constantFrom(...opencode.sample);
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
    const opened = play(opencode.sample.slice(0, 13)).state;
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
    const begun = play(opencode.sample.slice(0, 5)).state;
    const abort: SpoolLine = {
      dir: "in",
      text: JSON.stringify({ method: "POST", path: "/session/ses_1/abort" }),
      at: 0,
    };
    const { state } = play([abort], begun);
    const { replies } = opencode.decode(state, opencode.sample[5] as SpoolLine);
    expect(replies).toEqual(['{"method":"POST","path":"/session/ses_1/abort"}']);
  });

  it("ends a turn whose prompt was refused, or could not even become a message", () => {
    const told = play(opencode.sample.slice(0, 4)).state;
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

  it("settles by itself what an answer for all of the session settles too", () => {
    const ask = (id: string): SpoolLine =>
      sse("permission.asked", {
        id,
        sessionID: "ses_1",
        permission: "bash",
        patterns: ["ls"],
        metadata: {},
        always: [],
      });
    const replied = sse("permission.replied", { sessionID: "ses_1", requestID: "per_8", reply: "always" });
    const { facts, state } = play([ask("per_8"), replied], play(opencode.sample.slice(0, 6)).state);
    expect(facts.at(-1)).toMatchObject({
      type: "permission.resolved",
      data: { action: "bash", status: "approved", metadata: { by: "agent" } },
    });
    expect(Object.keys(state.transcript.asks)).toEqual([]);
  });
});

/** An event that says all of something as it is now. */
function isWhole({ dir, text }: SpoolLine): boolean {
  return dir === "sse" && /"type":"message\.(part\.)?updated"/.test(text);
}

function withText(line: SpoolLine, text: string): SpoolLine {
  return { ...line, text };
}

function prompt(session: string): SpoolLine {
  const path = `/session/${session}/prompt_async`;
  return { dir: "http-in", text: JSON.stringify({ method: "POST", path, body: { parts: [] } }), at: 0 };
}

function sse(type: string, properties: unknown): SpoolLine {
  return { dir: "out", text: JSON.stringify({ id: "evt_1", type, properties }), at: 0 };
}

function delta(partID: string, delta: string): SpoolLine {
  return sse("message.part.delta", { sessionID: "ses_1", messageID: "msg_2", partID, field: "text", delta });
}

function ended(id: string, text: string): SpoolLine {
  return sse("message.part.updated", {
    part: { id, messageID: "msg_2", sessionID: "ses_1", type: "text", text, time: { start: 1, end: 2 } },
  });
}

function play(
  lines: readonly SpoolLine[],
  first: State = opencode.initial(recordedContext("opencode")),
): { state: State; facts: HarnessFact[] } {
  const facts: HarnessFact[] = [];
  let state = first;
  for (const line of lines) {
    const decoded = opencode.decode(state, line);
    facts.push(...decoded.facts);
    state = decoded.state;
  }
  return { state, facts };
}

function afterSample(): State {
  return play(opencode.sample).state;
}

/** In the middle of the sample, where something is asked. */
function stateWith(kind: "permission" | "question"): { state: State; ask: string } {
  for (let end = 1; end <= opencode.sample.length; end++) {
    const { state } = play(opencode.sample.slice(0, end));
    const found = Object.entries(state.transcript.asks).find(([, ask]) => ask.kind === kind);
    if (found) return { state, ask: found[0] };
  }
  throw new Error(`nothing in the sample asks a ${kind}`);
}

function factsOf(lines: readonly SpoolLine[]): HarnessFact[] {
  return [...decodeRecording(opencode as Harness, lines)].flatMap(({ facts }) => facts);
}
