import type { EventDraft } from "../contract/index.ts";
import type { SessionWriter } from "./writer.ts";

/** The first event of every session says that it is one; none where it has been said. */
export function opening({ row, fold }: Pick<SessionWriter, "row" | "fold">): EventDraft[] {
  if (fold.started) return [];
  const { agent, directory, model } = row.spec;
  const metadata = {
    agent,
    ...(directory === undefined ? {} : { directory }),
    ...(model === undefined ? {} : { model }),
  };
  return [{ type: "session.started", source: "daemon", data: { metadata } }];
}
