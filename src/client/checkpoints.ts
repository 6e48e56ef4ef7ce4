import { pathOf } from "./paths.ts";
import type { CallOptions, Transport } from "./transport.ts";

export interface Checkpoint {
  readonly id: string;
  /** Equal trees have equal hashes. */
  readonly hash: string;
  /** ISO 8601. */
  readonly timestamp: string;
  readonly parentId?: string;
  readonly comment?: string;
  readonly sizeBytes: number;
  readonly agentType?: string;
  readonly model?: string;
  readonly sessionId?: string;
  readonly nativeSessionId?: string;
}

/** The kept files of a session. Making one and restoring one need a session in which no turn runs. */
export interface CheckpointsClient {
  /** Newest first. */
  list(session: string, options?: CallOptions & { limit?: number }): Promise<Checkpoint[]>;
  /** Of all sessions, or of those on one shelf; newest first. */
  shelved(shelf?: string, options?: CallOptions & { limit?: number | undefined }): Promise<Checkpoint[]>;
  create(session: string, options?: CallOptions & { comment?: string }): Promise<Checkpoint>;
  /** `checkpoint` is an id, also of another session, or `latest`: the newest of this one. */
  restore(session: string, checkpoint: string, options?: CallOptions): Promise<Checkpoint>;
}

export function createCheckpointsClient(transport: Transport): CheckpointsClient {
  return {
    async list(session, { limit, signal } = {}) {
      const path = pathOf(session, "checkpoints");
      const body = await transport.json<{ checkpoints: Checkpoint[] }>(path, { query: { limit }, signal });
      return body.checkpoints;
    },
    async shelved(shelf, { limit, signal } = {}) {
      const query = { shelf, limit };
      const body = await transport.json<{ checkpoints: Checkpoint[] }>("/v1/checkpoints", { query, signal });
      return body.checkpoints;
    },
    create: (session, { comment, signal } = {}) =>
      transport.json(pathOf(session, "checkpoints"), { method: "POST", json: { comment }, signal }),
    restore: (session, checkpoint, { signal } = {}) =>
      transport.json(pathOf(session, "restore"), { method: "POST", json: { checkpoint }, signal }),
  };
}
