import { initialContent, projectContent, type Told } from "../dialects/content/index.ts";
import type { Link } from "./backend.ts";

/**
 * One event of `events()`: what a listener would be given, with its place in the log.
 *
 * @example
 * const show = (event: StreamedEvent): void => console.log(event.sequence, event.type);
 * for await (const event of sluice.events()) show(event);
 */
export type StreamedEvent = { readonly sequence: number } & Told;

/**
 * What `events()` and `replay()` take.
 *
 * @example
 * const options: EventsOptions = { after: 42, signal: AbortSignal.timeout(10_000) };
 * for await (const event of sluice.events(options)) console.log(event.type);
 */
export interface EventsOptions {
  /** The sequence to begin behind; the oldest event that is kept comes first unless said otherwise. */
  after?: number;
  /** Ends the iteration quietly. */
  signal?: AbortSignal;
}

/** What each event of a session comes to, from any place on. */
export async function* streamEvents(
  link: Link,
  session: string,
  { after, signal }: { after?: number | undefined; signal: AbortSignal },
): AsyncGenerator<{ readonly sequence: number; readonly told: readonly Told[] }, void, undefined> {
  const info = await link.find(session);
  const floor = (info?.oldest ?? 1) - 1;
  const behind = after ?? floor;
  const start = await findTurnStart(link, session, { floor, cursor: behind });
  let state = initialContent(start > 0 ? { agent: info?.agent } : {});
  for await (const event of link.follow(session, { after: start, signal })) {
    const projected = projectContent(state, event);
    state = projected.state;
    const { sequence } = event;
    yield { sequence, told: sequence > behind ? projected.told : [] };
  }
}

const PAGE = 256;

/**
 * The sequence before the last turn that began up to the cursor: a turn's start says anew what is open, so nothing
 * before it has to be read.
 */
async function findTurnStart(
  link: Link,
  session: string,
  { floor, cursor }: { floor: number; cursor: number },
): Promise<number> {
  for (let end = cursor; end > floor; end -= PAGE) {
    const begin = Math.max(floor, end - PAGE);
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
