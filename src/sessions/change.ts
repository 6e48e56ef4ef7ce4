import { isDeepStrictEqual } from "node:util";
import type { EventData, SessionSpec } from "../contract/index.ts";
import type { SessionWriter } from "./writer.ts";

/** What of a session may be changed after it was made. */
export interface SessionChange {
  readonly title?: string | null;
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** The agent's definition as a dialect shows it; told with `settings`, which are what it means. */
  readonly agent?: unknown;
  readonly settings?: Partial<SessionSpec>;
  /** The agent loses its memory of the conversation: the next message begins a native session of its own. */
  readonly forget?: boolean;
  /** A dialect takes nothing for it any more; told, and nothing else. */
  readonly archivedAt?: string;
}

/** The part of a change that is one. Pure. */
export function changeOf(
  { row, spec, fold }: Pick<SessionWriter, "row" | "spec" | "fold">,
  { title, metadata, agent, settings, forget, archivedAt }: SessionChange,
): EventData<"session.updated"> {
  const { changes } = fold;
  const knownTitle = changes.title === undefined ? (row.spec.title ?? null) : changes.title;
  const data: EventData<"session.updated"> = {};
  if (title !== undefined && title !== knownTitle) data.title = title;
  if (metadata !== undefined && !isDeepStrictEqual(metadata, changes.metadata ?? row.spec.metadata ?? {})) {
    data.metadata = metadata;
  }
  if (archivedAt !== undefined) data.archived_at = archivedAt;
  if (forget && fold.nativeSessionId !== null) data.native_session_id = null;
  const isOther = (key: keyof SessionSpec): boolean => !isDeepStrictEqual(settings?.[key], spec[key]);
  const others = (Object.keys(settings ?? {}) as (keyof SessionSpec)[]).filter(isOther);
  if (others.length === 0) return data;
  data.settings = Object.fromEntries(others.map((key) => [key, settings?.[key]]));
  if (agent !== undefined) data.agent = agent;
  return data;
}
