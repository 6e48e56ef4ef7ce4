import type {
  ContentPart,
  EventData,
  EventDraft,
  ProcessExit,
  SessionSpec,
  SpoolLine,
  StderrOutput,
} from "../contract/index.ts";
import type { StoredEventText } from "../dialects/port.ts";
import { toLines } from "../dialects/shared/text.ts";
import type { Harness, HarnessCommand, HarnessFact } from "../harness/port.ts";
import { parseRecording, recordedContext } from "../harness/recording.ts";
import { EventSerialiser } from "../log/serialise.ts";
import { type Reply, replyEvents } from "../sessions/actions/replies.ts";
import { Drafts } from "../sessions/fold/drafts.ts";
import { emptyFold, type SessionFold } from "../sessions/fold/session-fold.ts";
import { waitingChange } from "../sessions/fold/waiting.ts";
import { endProcess } from "../sessions/process/ending.ts";
import { admitFact } from "../sessions/turn/rules.ts";
import { startTurn, userItem } from "../sessions/turn/turn-start.ts";

/**
 * The events of a recorded process, by the engine's own rules. Pure: times come from the recording and ids from
 * positions, so two runs give the same bytes.
 */
export function* decodeEvents(harness: Harness, text: string, session: string): Generator<StoredEventText> {
  const serialiser = new EventSerialiser({ id: session, createdAt: 0 });
  const replay = new Replay(harness, { agent: harness.id });
  const times = readTimes(text);
  let first = 1;
  let time = 0;
  const serialise = function* (events: readonly EventDraft[]): Generator<StoredEventText> {
    const bodies = serialiser.serialise(events, { first, time });
    for (const [index, event] of events.entries()) {
      yield { sequence: first + index, type: event.type, body: bodies[index] ?? "" };
    }
    first += events.length;
  };
  yield* serialise(replay.start());
  for (const line of parseRecording(text)) {
    time = times(line.at) ?? time;
    yield* serialise(replay.see(line, time));
  }
  yield* serialise(replay.end(time));
}

/** The streams that may have input for the agent. `meta` has the agent's arguments, and they may include a prompt. */
const INPUT_STREAMS: ReadonlySet<SpoolLine["dir"]> = new Set(["in", "http-in", "meta"]);

class Replay {
  readonly #harness: Harness;
  readonly #spec: SessionSpec;
  readonly #fold: SessionFold = emptyFold();
  readonly #stderr: string[] = [];
  #state: unknown;
  #inputs = 0;

  constructor(harness: Harness, spec: SessionSpec) {
    this.#harness = harness;
    this.#spec = spec;
    this.#state = harness.initial(recordedContext(harness.id));
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
    const observed = INPUT_STREAMS.has(line.dir) ? this.#harness.overhear?.(before, line) : undefined;
    if (observed) this.#observe(observed, drafts);
    const options = { spec: this.#spec, raw: undefined, line };
    for (const fact of facts) {
      if (!this.#fold.turn && belongsToTurn(fact)) this.#begin(drafts);
      admitFact(this.#fold, drafts, fact, options);
    }
    this.#reportWaiting(drafts);
    if (line.dir === "exit" && this.#fold.processOpen) this.#exit(drafts, line.exit ?? { lost: true });
    return drafts.events;
  }

  /** Ends the process of a truncated recording. */
  end(time: number): readonly EventDraft[] {
    if (!this.#fold.processOpen) return [];
    const drafts = new Drafts(this.#fold, time);
    this.#exit(drafts, { lost: true });
    return drafts.events;
  }

  #observe(command: HarnessCommand, drafts: Drafts): void {
    const { turn } = this.#fold;
    switch (command.type) {
      case "prompt":
        this.#accept(drafts, command.content);
        // During a turn the prompt waits, as in the agent itself.
        return turn ? undefined : startTurn(this.#fold, drafts);
      case "steer":
        return this.#accept(drafts, command.content, turn?.id);
      case "interrupt":
        if (!turn || turn.interrupt) return;
        return drafts.add({ type: "interrupt.requested", source: "daemon", data: { turn_id: turn.id } });
      case "retry":
        return;
      default: {
        const pending = turn?.pending.some((pending) => pending.id === command.id);
        if (pending) drafts.addAll(replyEvents(this.#fold, command.id, toReply(command)));
      }
    }
  }

  #accept(drafts: Drafts, content: readonly ContentPart[], running?: string): void {
    this.#inputs += 1;
    // The "r" keeps these item ids apart from those of the decoder, which count from itm_1.
    const inputId = `inp_r${this.#inputs}`;
    const turnId = running ?? `turn_${this.#inputs}`;
    const data = { input_id: inputId, turn_id: turnId, via: "recording", content: [...content] };
    drafts.add({ type: "input.accepted", source: "daemon", data });
    if (running !== undefined) drafts.addAll(userItem({ inputId, content: [...content] }));
  }

  /** Starts the turn of a waiting prompt; without one, the turn of an agent that acts by itself. */
  #begin(drafts: Drafts): void {
    if (this.#fold.inbox.length > 0) return startTurn(this.#fold, drafts);
    this.#inputs += 1;
    const data = { turn_id: `turn_${this.#inputs}`, input_ids: [] };
    drafts.add({ type: "turn.started", source: "daemon", data });
  }

  #reportWaiting(drafts: Drafts): void {
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

function toReply(command: Extract<HarnessCommand, { id: string }>): Reply {
  switch (command.type) {
    case "permission": {
      const { reply, message } = command;
      return { kind: "permission", reply, ...(message === undefined ? {} : { message }) };
    }
    case "question":
      return command.answers === undefined
        ? { kind: "question", rejected: true }
        : { kind: "question", answers: command.answers.map((answer) => [...answer]) };
    case "tool":
      return { kind: "tool", output: toLines(command.content), isError: command.isError };
  }
}

function belongsToTurn({ type }: HarnessFact): boolean {
  return /^(item|model|permission|question|tool|plan|turn)\./.test(type);
}

function toStderr(lines: readonly string[]): StderrOutput {
  const all = { total_lines: lines.length };
  if (lines.length <= 70) return { head: lines.join("\n"), truncated: false, ...all };
  return { head: lines.slice(0, 20).join("\n"), tail: lines.slice(-50).join("\n"), truncated: true, ...all };
}

/** Returns a function from a line's number to the time of that line. */
function readTimes(text: string): (line: number) => number | undefined {
  const rows = text.split("\n");
  return (line) => {
    const { t } = JSON.parse(rows[line - 1] ?? "{}") as { t?: unknown };
    return typeof t === "number" && Number.isFinite(t) ? Math.max(0, Math.round(t)) : undefined;
  };
}
