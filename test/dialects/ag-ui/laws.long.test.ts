import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type AgUiView, parseFrameId } from "../../../src/dialects/ag-ui/index.ts";
import { agUi } from "../../../src/dialects/ag-ui/index.ts";
import { customs, expectTellable, tellAll } from "./oracle.ts";
import { story } from "./stories.ts";

const view: fc.Arbitrary<AgUiView> = fc.constantFrom<AgUiView[]>(
  {},
  { protocol: "1.0" },
  { inputs: true },
  { bridged: true, fileEvents: false },
);
const RUNS = { numRuns: 400 };

describe("every generated log", () => {
  it("covers every kind of event", () => {
    const types = new Map<string, number>();
    for (const events of fc.sample(story, { numRuns: 200, seed: 1 }))
      for (const { type, outcome } of tellAll({ protocol: "1.0" }, events).told) {
        const name = outcome ? `${type} ${(outcome as { type: string }).type}` : type;
        types.set(name, (types.get(name) ?? 0) + 1);
      }
    for (const name of EVERYTHING) expect(types.get(name) ?? 0, name).toBeGreaterThan(5);
  });

  it("passes the verifiers of both clients, and every run ends once (AG-21, AG-25, AG-33)", async () => {
    await fc.assert(
      fc.asyncProperty(story, view, async (events, view) => {
        const { told } = tellAll(view, events);
        await expectTellable(told, view);
        const runs = told.filter(({ type }) => type === "RUN_STARTED");
        const ends = told.filter(({ type }) => type === "RUN_FINISHED" || type === "RUN_ERROR");
        expect(ends).toHaveLength(runs.length);
        expect(new Set(runs.map(({ runId }) => runId)).size).toBe(runs.length);
        for (const name of ["claude-code.session-id", "file.changed"])
          expect(customs(told, name).length).toBeLessThanOrEqual(runs.length);
      }),
      RUNS,
    );
  });

  it("gives the reader of one run the same frames as the reader of all", () => {
    fc.assert(
      fc.property(story, (events) => {
        const { told } = tellAll({}, events);
        for (const { runId } of told.filter(({ type }) => type === "RUN_STARTED")) {
          const begin = told.findIndex((event) => event["runId"] === runId);
          const end = told.findIndex(
            ({ type }, at) => at > begin && (type === "RUN_FINISHED" || type === "RUN_ERROR"),
          );
          expect(tellAll({ run: String(runId) }, events).told).toEqual(told.slice(begin, end + 1));
        }
      }),
      RUNS,
    );
  });

  it("resumes from any frame by folding its turn alone (memory: turn)", () => {
    fc.assert(
      fc.property(story, fc.nat(), (events, at) => {
        const view = { agent: "claude" };
        const { frames } = tellAll(view, events);
        if (frames.length === 0) return;
        const index = at % frames.length;
        const place = parseFrameId(frames[index]?.id ?? "");
        if (!place) throw new Error("no place");
        const after = place.index === undefined ? place.sequence : place.sequence - 1;
        const behind =
          place.index === undefined ? {} : { behind: { sequence: place.sequence, index: place.index } };
        const start = events.findLastIndex(
          ({ type, sequence }) => type === "turn.started" && sequence <= after,
        );
        let state = agUi.initial({ ...view, ...behind });
        const rest = [];
        for (const event of events.slice(Math.max(0, start))) {
          const projected = agUi.project(state, event);
          state = projected.state;
          if (event.sequence > after) rest.push(...projected.frames);
        }
        expect(rest).toEqual(frames.slice(index + 1));
      }),
      RUNS,
    );
  });
});

const EVERYTHING = [
  "RUN_FINISHED success",
  "RUN_FINISHED interrupt",
  "RUN_FINISHED cancelled",
  "RUN_ERROR",
  "TEXT_MESSAGE_CONTENT",
  "REASONING_MESSAGE_CONTENT",
  "TOOL_CALL_ARGS",
  "TOOL_CALL_RESULT",
  "SUBAGENT_STARTED",
  "SUBAGENT_FINISHED suspended",
  "SUBAGENT_FINISHED success",
  "SUBAGENT_ERROR",
  "ACTIVITY_SNAPSHOT",
  "STATE_SNAPSHOT",
  "STATE_DELTA",
  "CUSTOM",
];
