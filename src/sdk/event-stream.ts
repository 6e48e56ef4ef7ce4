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
  /** The sequence to begin behind; 0, the beginning, unless said otherwise. */
  after?: number;
  /** Ends the iteration quietly. */
  signal?: AbortSignal;
}

/** What each event of a session comes to, from any place on. */
export async function* streamEvents(
  link: Link,
  session: string,
  { after, signal }: { after: number; signal: AbortSignal },
): AsyncGenerator<{ readonly sequence: number; readonly told: readonly Told[] }, void, undefined> {
  // What was open at that place is known from what came before it.
  let state = initialContent();
  for await (const event of link.follow(session, { after: 0, signal })) {
    const projected = projectContent(state, event);
    state = projected.state;
    const { sequence } = event;
    yield { sequence, told: sequence > after ? projected.told : [] };
  }
}
