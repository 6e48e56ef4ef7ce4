import { SluiceError, type EventDraft } from "../../contract/index.ts";
import type { CheckpointInfo, Checkpoints } from "../../sandbox/checkpoint/port.ts";
import type { Sandbox } from "../../sandbox/port.ts";
import type { SessionWriter } from "../fold/writer.ts";

/** Makes and restores the checkpoints of one session: its files, and its agent's memory with them. */
export class Keeper {
  readonly #checkpoints: Checkpoints;
  readonly #writer: SessionWriter;

  constructor(checkpoints: Checkpoints, writer: SessionWriter) {
    this.#checkpoints = checkpoints;
    this.#writer = writer;
  }

  /** A checkpoint without an event is never offered. */
  async keep(sandbox: Sandbox, comment?: string): Promise<{ info: CheckpointInfo; event: EventDraft }> {
    const { row, fold } = this.#writer;
    const { info } = await this.#checkpoints.checkpoint({
      roots: rootsOf(sandbox),
      agent: row.spec.agent,
      sessionId: row.id,
      parentId: fold.checkpoint ?? undefined,
      comment,
      model: fold.changes.model ?? row.spec.model,
      nativeSessionId: fold.nativeSessionId ?? undefined,
    });
    const data = {
      checkpoint_id: info.id,
      hash: info.hash,
      size_bytes: info.sizeBytes,
      ...(info.parentId === undefined ? {} : { parent_id: info.parentId }),
      ...(info.comment === undefined ? {} : { comment: info.comment }),
    };
    return { info, event: { type: "checkpoint.created", source: "daemon", data } };
  }

  /** Nothing may run in the sandbox meanwhile. */
  async restore(sandbox: Sandbox, id: string): Promise<{ info: CheckpointInfo; events: EventDraft[] }> {
    const { row, fold } = this.#writer;
    const wanted = await this.#checkpoints.get(id, { sessionId: id === "latest" ? row.id : undefined });
    if (!wanted) {
      const hint =
        id === "latest"
          ? "No checkpoints found for this session; make one first"
          : `there is no checkpoint ${id}; list them first`;
      throw new SluiceError("checkpoint_not_found", hint);
    }
    if (wanted.agentType !== undefined && wanted.agentType !== row.spec.agent) {
      const detail = `checkpoint ${wanted.id} holds the memory of ${wanted.agentType}, and this session runs ${row.spec.agent}; restore it into a session of ${wanted.agentType}`;
      throw new SluiceError("invalid_request", detail);
    }
    const { owner } = sandbox;
    const { info } = await this.#checkpoints.restore(wanted.id, { roots: rootsOf(sandbox), owner });
    const native = info.nativeSessionId;
    const events: EventDraft[] = [
      { type: "checkpoint.restored", source: "daemon", data: { checkpoint_id: info.id, hash: info.hash } },
    ];
    if (native !== undefined && native !== fold.nativeSessionId) {
      events.push({
        type: "session.updated",
        source: "daemon",
        native_session_id: native,
        data: { native_session_id: native },
      });
    }
    return { info, events };
  }
}

function rootsOf(sandbox: Sandbox): { workspace: string; home: string } {
  if (sandbox.folders) return { workspace: sandbox.folders.workspace, home: sandbox.folders.home };
  throw new SluiceError(
    "capability_missing",
    `a ${sandbox.provider} sandbox cannot be checkpointed; use another provider`,
  );
}
