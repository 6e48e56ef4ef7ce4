import * as fc from "fast-check";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { ContentPart, SpoolLine } from "../../../src/contract/index.ts";
import { claude } from "../../../src/harness/claude/harness.ts";
import type { ClaudeState } from "../../../src/harness/claude/state.ts";
import type { HarnessCommand } from "../../../src/harness/port.ts";
import { parseRecording, recordedContext } from "../../../src/harness/recording.ts";

const FOLDER = join(import.meta.dirname, "../recordings/claude");
const LINES = readdirSync(FOLDER)
  .filter((name) => name.endsWith(".jsonl"))
  .flatMap((name) => parseRecording(readFileSync(join(FOLDER, name), "utf8")));

describe("Claude Code's adapter", () => {
  it("reads its encoded commands back", () => {
    const asking = stateAfter([READY, PROMPT, PERMISSION, QUESTION]);
    const [permission, question] = Object.keys(asking.transcript.asks) as [string, string];
    const words = fc.string({ minLength: 1 }).filter((text) => !/^Attached (file|image): /.test(text));
    const part = fc.oneof(
      words.map((text): ContentPart => ({ type: "text", text })),
      fc.base64String({ minLength: 4 }).map((data): ContentPart => ({
        type: "image",
        path: `data:image/png;base64,${data}`,
        mime: "image/png",
      })),
      fc.constant<ContentPart>({ type: "file_ref", path: "/workspace/a b.txt", action: "read" }),
    );
    const label = fc.string({ minLength: 1 }).filter((text) => !text.includes(","));
    const command = fc.oneof(
      fc
        .array(part, { minLength: 1 })
        .map((content): HarnessCommand => ({ type: "steer", inputId: "", content })),
      fc.constant<HarnessCommand>({ type: "interrupt" }),
      fc.constantFrom<HarnessCommand>(
        { type: "permission", id: permission, reply: "once" },
        { type: "permission", id: permission, reply: "always" },
        { type: "permission", id: permission, reply: "reject" },
        { type: "question", id: question },
      ),
      words.map((message): HarnessCommand => ({
        type: "permission",
        id: permission,
        reply: "reject",
        message,
      })),
      fc
        .tuple(label, fc.array(label, { minLength: 1 }))
        .map(([one, many]): HarnessCommand => ({ type: "question", id: question, answers: [[one], many] })),
    );
    fc.assert(
      fc.property(command, (given) => {
        expect(readBack(asking, given)).toEqual(given);
      }),
    );
    const prompt: HarnessCommand = {
      type: "prompt",
      inputId: "",
      content: [{ type: "text", text: "Hello" }],
    };
    expect(readBack(stateAfter([READY]), prompt)).toEqual(prompt);
  });

  it("says nothing to an ask that waits no more, and waits for the greeting's answer", () => {
    const state = stateAfter([READY, PROMPT, PERMISSION]);
    const [id = ""] = Object.keys(state.transcript.asks);
    const allow: HarnessCommand = { type: "permission", id, reply: "once" };
    const [line = ""] = claude.encode(state, allow) as string[];
    const answered = claude.decode(state, { dir: "in", text: line, at: 9 }).state;
    expect(claude.encode(answered, allow)).toEqual([]);
    const fresh = claude.initial(recordedContext("claude"));
    expect(claude.encode(fresh, { type: "prompt", inputId: "inp_1", content: [] })).toBe("later");
    expect(claude.encode(fresh, { type: "interrupt" })).toBe("later");
    expect(claude.greet?.(fresh)).toHaveLength(1);
  });

  it("keeps rules for the session, never in the workspace's settings", () => {
    const state = stateAfter([READY, PROMPT, PERMISSION]);
    const [id = ""] = Object.keys(state.transcript.asks);
    const [line = ""] = claude.encode(state, { type: "permission", id, reply: "always" }) as string[];
    const { updatedPermissions } = JSON.parse(line).response.response;
    expect(updatedPermissions).toEqual([
      {
        type: "addRules",
        rules: [{ toolName: "Bash", ruleContent: "touch a" }],
        behavior: "allow",
        destination: "session",
      },
    ]);
  });

  it("decodes the same lines to the same facts and never throws, also for mutated lines", () => {
    const line = fc.constantFrom(...LINES);
    const mangled = fc
      .tuple(line, fc.nat(), fc.nat(), fc.string({ maxLength: 4 }))
      .map(([given, from, size, put]): SpoolLine => {
        const { text } = given;
        const at = from % (text.length + 1);
        return withText(given, text.slice(0, at) + put + text.slice(at + (size % 40)));
      });
    const swapped = fc
      .tuple(line, line)
      .map(([given, other]) => withText(given, splice(given.text, other.text)));
    fc.assert(
      fc.property(fc.array(fc.oneof(line, mangled, swapped), { maxLength: 40 }), (lines) => {
        const first = factsOf(lines);
        expect(factsOf(lines)).toEqual(first);
        expect(JSON.parse(JSON.stringify(first))).toEqual(first);
      }),
      { numRuns: 300 },
    );
  });

  it("answers requests that no user can be asked about", () => {
    const ended = stateAfter([
      READY,
      PROMPT,
      { type: "result", subtype: "success", is_error: false, result: "Done." },
    ]);
    const between = claude.decode(ended, out(PERMISSION));
    expect(between.facts).toEqual([]);
    expect(between.replies?.map((line) => JSON.parse(line).response)).toMatchObject([
      { request_id: "ask_1", response: { behavior: "deny" } },
    ]);
    const hook = { type: "control_request", request_id: "ask_3", request: { subtype: "hook_callback" } };
    const refused = claude.decode(stateAfter([READY, PROMPT]), out(hook));
    expect(refused.replies?.map((line) => JSON.parse(line).response)).toMatchObject([{ subtype: "error" }]);
  });
});

const READY = {
  type: "control_response",
  response: { subtype: "success", request_id: "initialize", response: {} },
};
const PROMPT = {
  in: { type: "user", message: { role: "user", content: [{ type: "text", text: "Hello" }] } },
};
const PERMISSION = {
  type: "control_request",
  request_id: "ask_1",
  request: {
    subtype: "can_use_tool",
    tool_name: "Bash",
    input: { command: "touch a" },
    tool_use_id: "toolu_1",
    permission_suggestions: [
      {
        type: "addRules",
        rules: [{ toolName: "Bash", ruleContent: "touch a" }],
        behavior: "allow",
        destination: "localSettings",
      },
    ],
  },
};
const QUESTION = {
  type: "control_request",
  request_id: "ask_2",
  request: {
    subtype: "can_use_tool",
    tool_name: "AskUserQuestion",
    input: {
      questions: [
        { question: "One?", options: [{ label: "a" }, { label: "b" }], multiSelect: false },
        { question: "Many?", options: [{ label: "c" }, { label: "d" }], multiSelect: true },
      ],
    },
    tool_use_id: "toolu_2",
  },
};

function out(value: object): SpoolLine {
  return { dir: "out", text: JSON.stringify(value), at: 0 };
}

function stateAfter(lines: readonly object[]): ClaudeState {
  return lines.reduce<ClaudeState>(
    (state, line) => {
      const said: SpoolLine = "in" in line ? { dir: "in", text: JSON.stringify(line.in), at: 0 } : out(line);
      return claude.decode(state, said).state;
    },
    claude.initial(recordedContext("claude")),
  );
}

function readBack(state: ClaudeState, command: HarnessCommand): HarnessCommand | undefined {
  const lines = claude.encode(state, command);
  if (lines === undefined || lines === "later") return undefined;
  return claude.overhear?.(state, { dir: "in", text: lines.at(-1) ?? "", at: 0 });
}

function factsOf(lines: readonly SpoolLine[]): unknown[] {
  let state = claude.initial(recordedContext("claude"));
  return lines.flatMap((line) => {
    const decoded = claude.decode(state, line);
    state = decoded.state;
    return decoded.facts;
  });
}

function withText(line: SpoolLine, text: string): SpoolLine {
  return { ...line, text };
}

/** A line with a value of another line: valid JSON of an unexpected shape. */
function splice(text: string, other: string): string {
  try {
    const [into, from] = [JSON.parse(text), JSON.parse(other)];
    for (const key of Object.keys(into)) if (key in from) into[key] = Object.values(from).at(-1);
    return JSON.stringify(into);
  } catch {
    return text;
  }
}
