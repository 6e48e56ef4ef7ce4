import { createHash } from "node:crypto";
import { join } from "node:path";
import { defined } from "../../contract/own-keys.ts";
import { SluiceError, type EventDraft } from "../../contract/index.ts";
import { createCheckpoints } from "../../sandbox/index.ts";
import type {
  CheckpointInfo,
  CheckpointOptions,
  Checkpoints,
  CheckpointStorage,
  CheckpointTaken,
} from "../../sandbox/checkpoint/port.ts";
import type { Sandbox } from "../../sandbox/port.ts";
import type { SessionWriter } from "../fold/writer.ts";

/** Creates and restores the checkpoints of one session: its files, and its agent's memory with them. */
export class Checkpointer {
  readonly #checkpoints: Checkpoints;
  readonly #writer: SessionWriter;

  constructor(checkpoints: Checkpoints, writer: SessionWriter) {
    this.#checkpoints = checkpoints;
    this.#writer = writer;
  }

  /** Clients see the checkpoint once its event is in the log. */
  async create(sandbox: Sandbox, comment?: string): Promise<{ info: CheckpointInfo; event: EventDraft }> {
    const { row, fold } = this.#writer;
    const options = {
      agent: row.spec.agent,
      sessionId: row.id,
      parentId: fold.checkpoint ?? undefined,
      comment,
      model: fold.changes.model ?? row.spec.model,
      nativeSessionId: fold.nativeSessionId ?? undefined,
    };
    const { info } = await this.#take(sandbox, options);
    const data = {
      checkpoint_id: info.id,
      hash: info.hash,
      size_bytes: info.sizeBytes,
      ...defined({ parent_id: info.parentId, comment: info.comment }),
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
    const info = await this.#put(sandbox, wanted.id);
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

  async #take(sandbox: Sandbox, options: Omit<CheckpointOptions, "roots">): Promise<CheckpointTaken> {
    const { bundles } = sandbox.tree ?? {};
    if (!bundles) return this.#checkpoints.checkpoint({ roots: rootsOf(sandbox), ...options });
    const { parentId } = options;
    const parent = parentId === undefined ? undefined : await this.#checkpoints.get(parentId);
    try {
      return await this.#checkpoints.adopt(await bundles.make(parent?.hash), options);
    } finally {
      await bundles.drop().catch(() => {});
    }
  }

  async #put(sandbox: Sandbox, id: string): Promise<CheckpointInfo> {
    const { bundles } = sandbox.tree ?? {};
    if (bundles) return this.#checkpoints.send(id, bundles.target);
    const { owner } = sandbox;
    return (await this.#checkpoints.restore(id, { roots: rootsOf(sandbox), owner })).info;
  }
}

function rootsOf(sandbox: Sandbox): { workspace: string; home: string } {
  if (sandbox.tree?.roots) return sandbox.tree.roots;
  const detail = `a ${sandbox.provider} sandbox cannot be checkpointed; use another provider`;
  throw new SluiceError("capability_missing", detail);
}

interface CheckpointStoresOptions {
  readonly dataDir: string;
  readonly storage: CheckpointStorage;
  /** The storage of a shelf; undefined for a part of `storage`. */
  readonly find?: ((shelf: string) => CheckpointStorage | undefined) | undefined;
}

/** Returns the checkpoints of a shelf, or of all sessions without one. */
export function createCheckpointStores({
  dataDir,
  storage,
  find,
}: CheckpointStoresOptions): (shelf?: string) => Checkpoints {
  const known = new Map<string, { storage: CheckpointStorage | undefined; checkpoints: Checkpoints }>();
  const open = (storage: CheckpointStorage, cache: string): Checkpoints =>
    createCheckpoints({ storage, cacheFolder: join(dataDir, cache), never: [dataDir] });
  const common = open(storage, "checkpoint-cache");
  return (shelf) => {
    if (shelf === undefined) return common;
    const own = find?.(shelf);
    const kept = known.get(shelf);
    if (kept && kept.storage === own) return kept.checkpoints;
    const cache = join("shelf-cache", createHash("sha256").update(shelf).digest("hex").slice(0, 16));
    const checkpoints = open(own ?? partOf(storage, `shelves/${shelf}/`), cache);
    known.set(shelf, { storage: own, checkpoints });
    return checkpoints;
  };
}

function partOf(storage: CheckpointStorage, prefix: string): CheckpointStorage {
  return {
    put: (key, bytes) => storage.put(prefix + key, bytes),
    putIfAbsent: (key, bytes) => storage.putIfAbsent(prefix + key, bytes),
    get: (key) => storage.get(prefix + key),
    has: (key) => storage.has(prefix + key),
    list: async (from) => (await storage.list(prefix + from)).map((key) => key.slice(prefix.length)),
    delete: (key) => storage.delete(prefix + key),
    ...defined({ folder: storage.folder }),
  };
}
