import type {
  EventData,
  EventDraft,
  ProcessExit,
  SessionSpec,
  SpoolLine,
  StderrOutput,
} from "../../contract/index.ts";
import type { StoredEventText } from "../../dialects/stored.ts";
import type { Harness, HarnessFact } from "../../harness/port.ts";
import { parseRecording } from "../../harness/recording.ts";
import { Sealer } from "../../log/seal.ts";
import { admitFact } from "../../sessions/admit.ts";
import { Drafts } from "../../sessions/drafts.ts";
import { endProcess } from "../../sessions/ending.ts";
import { emptyFold, type SessionFold } from "../../sessions/fold.ts";
import { startTurn } from "../../sessions/start.ts";
import { waitingChange } from "../../sessions/waiting.ts";
import { readInput, type RecordedInput } from "./recordedInput.ts";

/**
 * The events that a recorded process would have left in the log, by the engine's own rules. Pure: times come from
 * the recording, ids from positions, so two runs give the same bytes.
 */
export function* decodeEvents(harness: Harness, text: string, session: string): Generator<StoredEventText> {
  const sealer = new Sealer({ id: session, createdAt: 0 });
  const replay = new Replay(harness, { agent: harness.id });
  const times = readTimes(text);
  let first = 1;
  let time = 0;
  const seal = function* (events: readonly EventDraft[]): Generator<StoredEventText> {
    const bodies = sealer.seal(events, { first, time });
    for (const [index, event] of events.entries()) {
      yield { sequence: first + index, type: event.type, body: bodies[index] ?? "" };
    }
    first += events.length;
  };
  yield* seal(replay.start());
  for (const line of parseRecording(text)) {
    time = times(line.at) ?? time;
    yield* seal(replay.see(line, time));
  }
  yield* seal(replay.end(time));
}

class Replay {
  readonly #harness: Harness;
  readonly #spec: SessionSpec;
  readonly #fold: SessionFold = emptyFold();
  readonly #stderr: string[] = [];
  #state: unknown;
  #turns = 0;

  constructor(harness: Harness, spec: SessionSpec) {
    this.#harness = harness;
    this.#spec = spec;
    this.#state = harness.initial({ idPrefix: "itm_" });
  }

  start(): readonly EventDraft[] {
    const drafts = new Drafts(this.#fold, 0);
    drafts.add({ type: "session.started", source: "daemon", data: {} });
    drafts.add({
      type: "process.started",
      source: "daemon",
      data: { process: 1, harness: this.#harness.id },
    });
    return drafts.events;
  }

  see(line: SpoolLine, time: number): readonly EventDraft[] {
    const drafts = new Drafts(this.#fold, time);
    const before = this.#state;
    const { state, facts } = this.#harness.decode(before, line);
    this.#state = state;
    if (line.dir === "err") this.#stderr.push(line.text);
    if (line.dir === "in") {
      const input = readInput(this.#harness, { before, after: state }, line, this.#fold.turn?.pending ?? []);
      if (input) this.#hear(input, drafts);
    }
    const options = { spec: this.#spec, raw: undefined, line };
    for (const fact of facts) {
      if (!this.#fold.turn && belongsToTurn(fact)) this.#begin(drafts, undefined);
      admitFact(this.#fold, drafts, fact, options);
    }
    this.#settle(drafts);
    if (line.dir === "exit" && this.#fold.processOpen) this.#exit(drafts, line.exit ?? { lost: true });
    return drafts.events;
  }

  /** A recording that breaks off leaves nothing open either. */
  end(time: number): readonly EventDraft[] {
    if (!this.#fold.processOpen) return [];
    const drafts = new Drafts(this.#fold, time);
    this.#exit(drafts, { lost: true });
    return drafts.events;
  }

  #hear(input: RecordedInput, drafts: Drafts): void {
    const { turn } = this.#fold;
    if (input.type === "prompt") {
      // While a turn runs it waits, as the agent itself makes it wait.
      if (!turn) this.#begin(drafts, input.text);
      return;
    }
    if (!turn) return;
    if (input.type !== "interrupt") return drafts.add(toResolved(input));
    drafts.add({ type: "interrupt.requested", source: "daemon", data: { turn_id: turn.id } });
  }

  #begin(drafts: Drafts, text: string | undefined): void {
    this.#turns += 1;
    const turnId = `turn_${this.#turns}`;
    if (text === undefined) {
      return drafts.add({ type: "turn.started", source: "daemon", data: { turn_id: turnId, input_ids: [] } });
    }
    const content = [{ type: "text" as const, text }];
    const accepted = { input_id: `inp_${this.#turns}`, turn_id: turnId, via: "recording", content };
    drafts.add({ type: "input.accepted", source: "daemon", data: accepted });
    startTurn(this.#fold, drafts);
  }

  #settle(drafts: Drafts): void {
    const waiting = waitingChange(this.#fold);
    if (waiting) drafts.add(waiting);
  }

  #exit(drafts: Drafts, exit: ProcessExit): void {
    const ended: EventData<"process.ended"> = {
      process: 1,
      reason: exit.lost ? "lost" : "exited",
      ...(exit.code === undefined ? {} : { exit_code: exit.code }),
      ...(exit.signal === undefined ? {} : { signal: exit.signal }),
      ...(this.#stderr.length === 0 ? {} : { stderr: toStderr(this.#stderr) }),
    };
    endProcess(this.#fold, drafts, ended, undefined);
  }
}

function toResolved(input: Exclude<RecordedInput, { type: "prompt" | "interrupt" }>): EventDraft {
  const { pending } = input;
  if (input.type === "permission") {
    const status = input.approved ? "approved" : "denied";
    const data = {
      permission_id: pending.id,
      action: pending.prompt,
      status,
      metadata: pending.metadata,
    } as const;
    return { type: "permission.resolved", source: "daemon", data };
  }
  if (input.type === "question") {
    const status = input.rejected ? "rejected" : "answered";
    const data = {
      question_id: pending.id,
      prompt: pending.prompt,
      options: pending.options ?? [],
      status,
    } as const;
    return { type: "question.resolved", source: "daemon", data };
  }
  const data = { request_id: pending.id, name: pending.prompt, status: "completed" as const, content: [] };
  return { type: "tool.resolved", source: "daemon", data };
}

function belongsToTurn({ type }: HarnessFact): boolean {
  return /^(item|model|permission|question|tool|plan|turn)\./.test(type);
}

function toStderr(lines: readonly string[]): StderrOutput {
  const all = { total_lines: lines.length };
  if (lines.length <= 70) return { head: lines.join("\n"), truncated: false, ...all };
  return { head: lines.slice(0, 20).join("\n"), tail: lines.slice(-50).join("\n"), truncated: true, ...all };
}

/** The `t` of each line of the recording, by its number. */
function readTimes(text: string): (line: number) => number | undefined {
  const rows = text.split("\n");
  return (line) => {
    const { t } = JSON.parse(rows[line - 1] ?? "{}") as { t?: unknown };
    return typeof t === "number" && Number.isFinite(t) ? Math.max(0, Math.round(t)) : undefined;
  };
}
