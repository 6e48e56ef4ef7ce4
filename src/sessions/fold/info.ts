import { defined } from "../../contract/own-keys.ts";
import type { PendingAction, SessionInfo } from "../../contract/index.ts";
import type { SessionRow } from "../../log/port.ts";
import { statusOf, type SessionFold } from "./session-fold.ts";
import type { Pending } from "./turn-fold.ts";

/** A session as clients see it: from its spec and its fold, without secrets. Pure. */
export function toSessionInfo(row: SessionRow, fold: SessionFold): SessionInfo {
  const { spec } = row;
  return {
    sessionId: row.id,
    agent: spec.agent,
    agentMode: spec.agentMode ?? "default",
    permissionMode: spec.permissionMode ?? "default",
    model: fold.changes.model ?? spec.model ?? null,
    variant: fold.changes.variant ?? spec.variant ?? null,
    directory: spec.directory ?? null,
    title: fold.changes.title ?? spec.title ?? null,
    sandbox: fold.sandbox?.provider ?? spec.sandbox ?? "default",
    nativeSessionId: fold.nativeSessionId,
    status: statusOf(fold),
    ended: fold.ended !== null,
    paused: fold.paused,
    turnId: fold.turn?.id ?? null,
    queued: fold.inbox.length,
    pendingActions: (fold.turn?.pending ?? []).map(toPublic),
    usage: { ...fold.usage },
    eventCount: fold.head,
    ...toOldest(row),
    createdAt: row.createdAt,
    updatedAt: row.updatedAt,
  };
}

/** The first sequence of a trimmed log. */
export function toOldest({ floor }: SessionRow): Pick<SessionInfo, "oldest"> {
  return floor > 0 ? { oldest: floor + 1 } : {};
}

function toPublic({ kind, id, turnId, sequence, prompt, options, input }: Pending): PendingAction {
  return { kind, id, turnId, sequence, prompt, ...defined({ options, input }) };
}
