import type { BenchSession } from "../contenders/contender.ts";
import type { ReadTask } from "../workers/read-worker.ts";

/** One session in one dialect. */
export interface View {
  readonly name: string;
  /** Reads from `after` on. */
  task(options: { after: number; readers: number; marker?: string }): ReadTask;
  /** A text that only the last event of a turn has. */
  readonly endMark: string;
}

const SILENCE_MS = 5_000;
const BETA = { "anthropic-beta": "managed-agents-2026-04-01" };

export function universalView({ stream, endMark }: BenchSession): View {
  const { url, headers } = stream;
  return {
    name: "universal",
    endMark,
    task: ({ after, readers, marker = endMark }) => ({
      url,
      headers: { ...headers, "last-event-id": String(after) },
      after,
      readers,
      marker,
      silenceMs: SILENCE_MS,
    }),
  };
}

/** The same session, by its id in this dialect. */
export function anthropicView(session: BenchSession, options: { deltas: boolean }): View {
  const url = `${anthropicUrl(session)}/events/stream${options.deltas ? "?event_deltas[]=agent.message" : ""}`;
  const endMark = '"type":"session.status_idle"';
  return {
    name: "anthropic",
    endMark,
    task: ({ after, readers, marker = endMark }) => ({
      url,
      headers: BETA,
      after,
      counts: "frames",
      ...(options.deltas && { tally: "\nevent: event_delta\n" }),
      readers,
      marker,
      silenceMs: SILENCE_MS,
    }),
  };
}

function anthropicUrl({ stream }: BenchSession): string {
  const { origin, pathname } = new URL(stream.url);
  return `${origin}/anthropic/v1/sessions/sesn_${pathname.split("/")[3]}`;
}
