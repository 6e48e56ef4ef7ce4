import { type EventType, FORMAT_NAMES, type FormatName } from "../../contract/index.ts";
import { FORMATS } from "../../dialects/formats.ts";
import type { StoredEventText } from "../../dialects/port.ts";
import type { LogIndex } from "./log-index.ts";
import type { EventText, FrameRow } from "./protocol.ts";
import { PAGE } from "./texts.ts";

/** States of a projection that are kept. */
const KEPT = 100;

export type ReadEvents = (from: number, count: number) => Promise<EventText[]>;

/** The projections of one log. States are values, so one that is kept can be gone on from at any time. */
class Projections {
  readonly #states = new Map<string, Map<number, unknown>>();

  keep(name: string, sequence: number, state: unknown): void {
    let kept = this.#states.get(name);
    if (!kept) this.#states.set(name, (kept = new Map()));
    kept.delete(sequence);
    kept.set(sequence, state);
    const [oldest] = kept.keys();
    if (kept.size > KEPT && oldest !== undefined) kept.delete(oldest);
  }

  /** The newest kept state that is not before `from` and not after `to`. */
  find(name: string, from: number, to: number): { after: number; state: unknown } | undefined {
    let best: number | undefined;
    for (const sequence of this.#states.get(name)?.keys() ?? [])
      if (sequence >= from && sequence <= to && sequence > (best ?? -1)) best = sequence;
    return best === undefined ? undefined : { after: best, state: this.#states.get(name)?.get(best) };
  }
}

const logs = new WeakMap<LogIndex, Projections>();

/**
 * The frames of events in each dialect, with the views of the server's `events?as=`. A dialect's state does not outlive
 * its turn. In a long turn it is kept from page to page, so that a page costs its own events.
 */
export async function projectFrames(
  index: LogIndex,
  given: {
    readonly from: number;
    readonly count: number;
    readonly dialects: readonly string[];
    readonly lines: ReadonlyMap<number, string>;
    /** The session's agent, for a projection that does not begin with the log. */
    readonly agent: string | undefined;
    readonly read: ReadEvents;
  },
): Promise<FrameRow[]> {
  const { from, lines } = given;
  const events = await given.read(from, given.count);
  const frames = events.map((): Record<string, readonly string[]> => ({}));
  for (const name of given.dialects) {
    const format = FORMAT_NAMES.find((known) => known === name);
    if (!format) continue;
    const { project, keep } = await startAt(index, format, given);
    events.forEach((event, at) => {
      (frames[at] as Record<string, readonly string[]>)[name] = project(event);
    });
    keep();
  }
  return events.map((event, at) => {
    const raw = lines.get(event.sequence);
    const row: FrameRow = Object.assign(event, { frames: frames[at] ?? {} });
    return raw ? Object.assign(row, { raw }) : row;
  });
}

/** A projection that stands before an event. */
async function startAt(
  index: LogIndex,
  name: FormatName,
  { from, agent, read }: { from: number; agent: string | undefined; read: ReadEvents },
): Promise<{ project: (event: EventText) => readonly string[]; keep: () => void }> {
  let known = logs.get(index);
  if (!known) logs.set(index, (known = new Projections()));
  const kept = known;
  const { dialect, toView } = FORMATS[name];
  const start = (index.turnAt(from)?.first ?? index.base + 1) - 1;
  const found = kept.find(name, start, from - 1);
  let after = found?.after ?? start;
  let state = found ? found.state : dialect.initial(toView(agent === undefined ? {} : { agent }));
  const project = (event: EventText): readonly string[] => {
    const projected = dialect.project(state, toStored(event));
    state = projected.state;
    after = event.sequence;
    return projected.frames.map(({ data }) => data);
  };
  for (let next = after + 1; next < from; next += PAGE) {
    for (const event of await read(next, Math.min(PAGE, from - next))) project(event);
    kept.keep(name, after, state);
  }
  return { project, keep: () => kept.keep(name, after, state) };
}

function toStored({ sequence, type, body }: EventText): StoredEventText {
  return { sequence, type: type as EventType, body };
}
