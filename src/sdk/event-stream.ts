import { initialContent, projectContent, type Told } from "../dialects/content/index.ts";
import type { Link } from "./backend.ts";
import { findBeginning } from "./beginning.ts";

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
  const behind = after ?? (info?.oldest ?? 1) - 1;
  const begun = info ? await findBeginning(link, info, behind) : { after: behind, state: initialContent() };
  let { state } = begun;
  for await (const event of link.follow(session, { after: begun.after, signal })) {
    const projected = projectContent(state, event);
    state = projected.state;
    const { sequence } = event;
    yield { sequence, told: sequence > behind ? projected.told : [] };
  }
}
