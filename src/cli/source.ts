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

/** The events of a session behind `after`, for as long as `following` says. */
export async function* tailEvents(
  source: Source,
  session: string,
  options: { after: number; following: Following; signal: AbortSignal },
): AsyncGenerator<StoredEventText, void> {
  const { after, following, signal } = options;
  let info = await source.info(session);
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
