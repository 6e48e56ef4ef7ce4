import type { SessionInfo } from "../contract/index.ts";
import type { StoredEventText } from "../dialects/stored.ts";

/** Where sessions are read from: a server, or the data folder itself. */
export interface Source {
  /** For people: the URL or the folder. */
  readonly where: string;
  sessions(): AsyncIterable<SessionInfo>;
  info(session: string): Promise<SessionInfo>;
  /** All that is there now. */
  read(session: string, options: { after: number }): AsyncIterable<StoredEventText>;
  /** All that is there and all that comes, until the session ends or is deleted, or `signal` aborts. */
  follow(session: string, options: { after: number; signal: AbortSignal }): AsyncIterable<StoredEventText>;
  close(): Promise<void>;
}

export type Following = "always" | "while-running" | "never";

export interface TailOptions {
  /** The oldest event that is kept comes first, unless this says otherwise. */
  readonly after?: number | undefined;
  readonly following: Following;
  readonly signal: AbortSignal;
  /** Told where a log begins whose older events were trimmed away. */
  readonly onTrimmed?: (oldest: number) => void;
}

/** The events of a session behind `after`, for as long as `following` says. */
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
    // Only at the head of the log is it worth asking whether anything more will come.
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
