import type { SessionInfo } from "../../contract/index.ts";
import type { StoredEventText } from "../../dialects/port.ts";
import type { Source } from "./port.ts";

export type Following = "always" | "while-running" | "never";

export interface TailOptions {
  /** The sequence before the first event (default: all events that are kept). */
  readonly after?: number | undefined;
  readonly following: Following;
  readonly signal: AbortSignal;
  /** Called with the oldest sequence of a trimmed log. */
  readonly onTrimmed?: (oldest: number) => void;
}

/** The events of a session after the sequence `after`. */
export async function* tailEvents(
  source: Source,
  session: string,
  options: TailOptions,
): AsyncGenerator<StoredEventText, void> {
  const { following, signal } = options;
  let info = await source.info(session);
  if (options.after === undefined && info.oldest !== undefined) options.onTrimmed?.(info.oldest);
  const after = options.after ?? (info.oldest ?? 1) - 1;
  if (following === "never" || (following === "while-running" && isAtRest(info))) {
    yield* source.read(session, { after });
    return;
  }
  let sawTurnEnd = false;
  for await (const event of source.follow(session, { after, signal })) {
    yield event;
    if (event.type === "turn.started") sawTurnEnd = false;
    if (event.type === "turn.ended") sawTurnEnd = true;
    // A session can be at rest only at the head of its log, so the status is asked for only there.
    if (following === "always" || !sawTurnEnd || event.sequence < info.eventCount) continue;
    info = await source.info(session);
    if (isAtRest(info) && event.sequence >= info.eventCount) return;
  }
}

function isAtRest(info: SessionInfo): boolean {
  return info.ended || (info.status === "idle" && info.queued === 0);
}

export function warnOfTrimming(oldest: number): void {
  process.stderr.write(`The events before ${oldest} were trimmed away.\n`);
}
