import { defined } from "../../contract/own-keys.ts";
import type {
  McpServer,
  PendingAction,
  SessionEntry,
  SessionInfo,
  SessionSpec,
  ShownSpec,
  WaitingInput,
} from "../../contract/index.ts";
import type { SessionRow } from "../../log/port.ts";
import type { QueuedInput } from "./queue.ts";
import { statusOf, type SessionFold } from "./session-fold.ts";
import { toText } from "./tally.ts";
import type { Pending } from "./turn-fold.ts";

/** A session as clients see it: from its spec and its fold, without secrets. Pure. */
export function toSessionInfo(row: SessionRow, fold: SessionFold): SessionInfo {
  const { changes } = fold;
  const spec = specOf(row, fold);
  return {
    sessionId: row.id,
    agent: spec.agent,
    agentMode: spec.agentMode ?? "default",
    permissionMode: spec.permissionMode ?? "default",
    model: changes.model ?? spec.model ?? null,
    variant: changes.variant ?? spec.variant ?? null,
    directory: spec.directory ?? null,
    title: changes.title === undefined ? (spec.title ?? null) : changes.title,
    sandbox: fold.sandbox?.provider ?? spec.sandbox ?? "default",
    nativeSessionId: fold.nativeSessionId,
    status: statusOf(fold),
    ended: fold.ended !== null,
    paused: fold.paused,
    turnId: fold.turn?.id ?? null,
    queued: fold.inbox.length,
    pendingActions: (fold.turn?.pending ?? []).map(toPublic),
    usage: { ...fold.usage },
    ...defined({ credential: fold.credential }),
    eventCount: fold.head,
    ...toOldest(row),
    createdAt: row.createdAt,
    updatedAt: row.updatedAt,
  };
}

/** The fields that the live list adds to a session. Pure. */
export function toListed({ tally, words = "" }: SessionFold): Pick<SessionEntry, "turns" | "words"> {
  return { words, ...defined({ turns: tally?.turns }) };
}

/** A queued input with its position. Pure. */
export function toWaitingInput(
  { inputId, turnId, content, options }: QueuedInput,
  position: number,
): WaitingInput {
  return { inputId, turnId, position, message: toText(content), content, ...defined({ options }) };
}

/** The spec with all later changes. */
export function specOf({ spec }: SessionRow, { changes }: SessionFold): SessionSpec {
  return withSettings(spec, changes.settings);
}

/** `directory` is null where a move took it away. */
type ChangedSettings = Omit<Partial<SessionSpec>, "directory"> & { directory?: string | null | undefined };

/** The spec with later settings. A session that moved to another machine has lost its folder of this one. Pure. */
export function withSettings(spec: SessionSpec, settings: ChangedSettings | undefined): SessionSpec {
  const { directory, ...rest } = { ...spec, ...settings };
  return { ...rest, ...(typeof directory === "string" && { directory }) };
}

/** The settings of a session for a reader who may not know its secrets. Pure. */
export function toShownSpec(row: SessionRow, fold: SessionFold): ShownSpec {
  const { title: _title, metadata: _metadata, ...spec } = specOf(row, fold);
  const { title = row.spec.title, metadata = row.spec.metadata } = fold.changes;
  return {
    ...spec,
    ...(typeof title === "string" && { title }),
    ...(metadata === undefined ? {} : { metadata: metadata as Record<string, unknown> }),
    // A budget that a client removed.
    ...((spec.budget as unknown) === null && { budget: undefined }),
    ...hide(spec, "env"),
    ...hide(spec, "secrets"),
    ...(spec.mcp && { mcp: Object.fromEntries(Object.entries(spec.mcp).map(toHiddenServer)) }),
  };
}

const HIDDEN = "(hidden)";

function toHiddenServer([name, server]: [string, McpServer]): [string, McpServer] {
  return [
    name,
    "url" in server ? { ...server, ...hide(server, "headers") } : { ...server, ...hide(server, "env") },
  ];
}

/** The field with its names and without its values. */
function hide<Key extends string>(
  from: { readonly [K in Key]?: Readonly<Record<string, string>> | undefined },
  key: Key,
): { [K in Key]?: Record<string, string> } {
  const values = from[key];
  if (values === undefined) return {};
  const hidden = Object.fromEntries(Object.keys(values).map((name) => [name, HIDDEN]));
  return { [key]: hidden } as { [K in Key]?: Record<string, string> };
}

/** The first sequence of a trimmed log. */
export function toOldest({ floor }: SessionRow): Pick<SessionInfo, "oldest"> {
  return floor > 0 ? { oldest: floor + 1 } : {};
}

function toPublic({ kind, id, turnId, sequence, prompt, options, input }: Pending): PendingAction {
  return { kind, id, turnId, sequence, prompt, ...defined({ options, input }) };
}
