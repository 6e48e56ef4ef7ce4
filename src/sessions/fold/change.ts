import { isDeepStrictEqual } from "node:util";
import type { EventData, SessionSpec } from "../../contract/index.ts";
import type { Harness } from "../../harness/port.ts";
import { refuseUnreachableTools } from "../actions/tool-server.ts";
import type { SessionContext } from "../context.ts";
import { refuseUnknownHosts } from "../private-hosts.ts";
import { refuseEnded, refuseTurn } from "../refusals.ts";
import { refuseUnknownChoices } from "../spec.ts";
import { opening, type SessionWriter } from "./writer.ts";

/** A change of a session after its creation. */
export interface SessionChange {
  readonly title?: string | null;
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** The agent's definition in a dialect's own form; `settings` hold its meaning. */
  readonly agent?: unknown;
  readonly settings?: Partial<SessionSpec>;
  /** The agent loses its memory of the conversation: the next message begins a new native session. */
  readonly forget?: boolean;
  /** The time at which a dialect archived the session; it has no other effect. */
  readonly archivedAt?: string;
}

/** Appends the change as an event; true where the agent has to be started again. Call it under the lock. */
export async function changeSession(
  { deps, writer, commit }: SessionContext,
  runner: { readonly isEnding: boolean; readonly isBooting: boolean },
  change: SessionChange,
  key?: string,
): Promise<boolean> {
  const { fold } = writer;
  refuseEnded(writer.row.id, fold, runner);
  const data = changeOf(writer, change);
  const { budget: _budget, ...ofAgent } = (data.settings ?? {}) as Partial<SessionSpec>;
  const restarts = Object.keys(ofAgent).length > 0;
  if (restarts) {
    refuseTurn("be changed", fold, runner);
    refuseSettings(deps.harness(writer.spec), writer.spec, data.settings as Partial<SessionSpec>);
  }
  if (data.native_session_id === null) refuseTurn("forget", fold, runner);
  if (Object.keys(data).length === 0) return false;
  const event = { type: "session.updated", source: "daemon", data } as const;
  const kept = key === undefined ? {} : { key: { key, fingerprint: "", answer: "" } };
  await commit(writer.drafts([...opening(writer), event]), kept);
  return restarts;
}

/** Refuses settings that the agent could not be started with. */
function refuseSettings(harness: Harness, spec: SessionSpec, settings: Partial<SessionSpec>): void {
  const changed = { ...spec, ...settings };
  refuseUnknownChoices(harness, { ...settings, agent: spec.agent });
  refuseUnreachableTools(changed);
  refuseUnknownHosts(changed);
  harness.check?.(changed);
}

/** The parts of a change that differ from the session's state. Pure. */
function changeOf(
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
