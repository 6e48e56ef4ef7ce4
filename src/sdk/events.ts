import type { SessionInfo, SluiceEvent } from "../contract/index.ts";
import { type ContentState, type Emitted, initialContent, projectContent } from "../dialects/sdk/index.ts";
import type { Link } from "./backend/port.ts";

/**
 * One event of `events()`: a listener's event with its sequence in the log.
 *
 * @example
 * const show = (event: StreamedEvent): void => console.log(event.sequence, event.type);
 * for await (const event of sluice.events()) show(event);
 */
export type StreamedEvent = { readonly sequence: number } & Emitted;

/**
 * The options of `events()` and `replay()`.
 *
 * @example
 * const options: EventsOptions = { after: 42, signal: AbortSignal.timeout(10_000) };
 * for await (const event of sluice.events(options)) console.log(event.type);
 */
export interface EventsOptions {
  /** The sequence before the first event (default: all events that are kept). */
  after?: number;
  /** Ends the iteration quietly. */
  signal?: AbortSignal;
}

/** The SDK events of a session from any sequence on. */
export async function* streamEvents(
  link: Link,
  session: string,
  { after, signal }: { after?: number | undefined; signal: AbortSignal },
): AsyncGenerator<{ readonly sequence: number; readonly emitted: readonly Emitted[] }, void, undefined> {
  const info = await link.find(session);
  const cursor = after ?? (info?.oldest ?? 1) - 1;
  const beginning = info
    ? await findBeginning(link, info, cursor)
    : { after: cursor, state: initialContent() };
  let { state } = beginning;
  for await (const event of link.follow(session, { after: beginning.after, signal })) {
    const projected = projectContent(state, event);
    state = projected.state;
    const { sequence } = event;
    yield { sequence, emitted: sequence > cursor ? projected.emitted : [] };
  }
}

/** The position to read a session from, and the state there. */
export interface Beginning {
  readonly after: number;
  readonly state: ContentState;
}

const PAGE_SIZE = 256;

/**
 * The latest position from which the state at the cursor can be computed: just before the last turn's start. A running
 * command may be older than that turn, so it is searched for.
 */
export async function findBeginning(
  link: Link,
  info: Pick<SessionInfo, "sessionId" | "agent" | "oldest">,
  cursor: number,
): Promise<Beginning> {
  const floor = (info.oldest ?? 1) - 1;
  const session = info.sessionId;
  const after = await findTurnStart(link, session, { floor, cursor });
  const isWhole = after === 0;
  const state = initialContent(isWhole ? {} : { agent: info.agent });
  const command = isWhole ? null : await findCommand(link, session, { floor, through: after });
  return { after, state: { ...state, command } };
}

/** The sequence just before the last `turn.started` up to the cursor, which resets the state. */
async function findTurnStart(
  link: Link,
  session: string,
  { floor, cursor }: { floor: number; cursor: number },
): Promise<number> {
  for (let end = cursor; end > floor; end -= PAGE_SIZE) {
    const begin = Math.max(floor, end - PAGE_SIZE);
    let started: number | undefined;
    for (let after = begin; after < end;) {
      const events = await link.read(session, { after, limit: end - after });
      for (const { type, sequence } of events) if (type === "turn.started") started = sequence;
      after = events.at(-1)?.sequence ?? end;
    }
    if (started !== undefined) return started - 1;
  }
  return Math.min(floor, cursor);
}

/** The command that runs at a position of the log. */
async function findCommand(
  link: Link,
  session: string,
  { floor, through }: { floor: number; through: number },
): Promise<ContentState["command"]> {
  const types = ["command.started", "command.ended"] as const;
  let command: ContentState["command"] = null;
  for (let after = Math.min(floor, through); ;) {
    const events = await link.read(session, { after, limit: PAGE_SIZE, types });
    for (const event of events) {
      after = event.sequence;
      if (after > through) return command;
      if (event.type === "command.ended") command = null;
      if (event.type === "command.started")
        command = { id: event.data.command_id, background: event.data.background === true };
    }
    if (events.length === 0) return command;
  }
}

export interface FollowerOptions {
  readonly session: string;
  readonly beginning: Beginning;
  /** Events up to this sequence only update the state. */
  readonly quietUntil?: number;
  readonly onEvent: (event: SluiceEvent, emitted: readonly Emitted[], state: ContentState) => void;
  /** Called when the session ends or its log cannot be followed. */
  readonly onEnd: (error?: unknown) => void;
}

/** Follows one session's log. A stopped follower can start again and continues after its cursor. */
export class Follower {
  readonly #options: FollowerOptions;
  #state: ContentState;
  #cursor: number;
  #abort: AbortController | undefined;
  #done: Promise<void> = Promise.resolve();
  /** Whether the log was read to the session's end. */
  #isOver = false;
  #waiting: { sequence: number; wake: () => void }[] = [];

  constructor(options: FollowerOptions) {
    this.#options = options;
    this.#cursor = options.beginning.after;
    this.#state = options.beginning.state;
  }

  get state(): ContentState {
    return this.#state;
  }

  /** The last sequence that was read. */
  get cursor(): number {
    return this.#cursor;
  }

  start(link: Link): void {
    if (this.#abort || this.#isOver) return;
    const abort = new AbortController();
    this.#abort = abort;
    this.#done = this.#follow(link, abort.signal).finally(() => {
      if (this.#abort === abort) this.#abort = undefined;
      for (const { wake } of this.#waiting.splice(0)) wake();
    });
  }

  async stop(): Promise<void> {
    this.#abort?.abort();
    await this.#done;
  }

  /** Resolves when this sequence was read, or when the follower stops. */
  async reached(sequence: number): Promise<void> {
    if (this.#cursor >= sequence || !this.#abort) return;
    await new Promise<void>((wake) => this.#waiting.push({ sequence, wake }));
  }

  /** Resolves when the session has ended, or when the follower stops. */
  finished(): Promise<void> {
    return this.#done;
  }

  async #follow(link: Link, signal: AbortSignal): Promise<void> {
    try {
      const { session } = this.#options;
      for await (const event of link.follow(session, { after: this.#cursor, signal })) {
        if (signal.aborted) return;
        this.#see(event);
      }
      if (signal.aborted) return;
      this.#isOver = true;
      this.#options.onEnd();
    } catch (error) {
      if (!signal.aborted) this.#options.onEnd(error);
    }
  }

  #see(event: SluiceEvent): void {
    const { state, emitted } = projectContent(this.#state, event);
    this.#state = state;
    this.#cursor = event.sequence;
    if (event.sequence > (this.#options.quietUntil ?? 0)) this.#options.onEvent(event, emitted, state);
    const ready = this.#waiting.filter(({ sequence }) => sequence <= this.#cursor);
    this.#waiting = this.#waiting.filter(({ sequence }) => sequence > this.#cursor);
    for (const { wake } of ready) wake();
  }
}
