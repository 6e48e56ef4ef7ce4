import { z } from "zod";
import { createId, SessionId, SluiceError } from "../../contract/index.ts";
import type { CheckpointInfo, CheckpointQuery, CheckpointStorage } from "./port.ts";
import type { ContentIndex } from "./storage/content-index.ts";
import { corrupt } from "./storage/pack.ts";

/** The storage of checkpoints with its index, records and cache. */
export interface CheckpointStore {
  readonly storage: CheckpointStorage;
  readonly cacheFolder: string;
  readonly index: ContentIndex;
  readonly records: CheckpointRecords;
  /** Host folders that no checkpoint may hold. */
  readonly never: readonly string[];
}

const CheckpointId = z.string().regex(/^ckpt_[0-9A-Za-z]{1,64}$/);

const StoredInfo = z.object({
  id: CheckpointId,
  hash: z.string().regex(/^[0-9a-f]{64}$/),
  timestamp: z.string(),
  parentId: z.string().optional(),
  comment: z.string().optional(),
  sizeBytes: z.number(),
  agentType: z.string().optional(),
  model: z.string().optional(),
  sessionId: z.string().optional(),
  nativeSessionId: z.string().optional(),
});

const AT_ONCE = 16;

/** The records of the checkpoints. A checkpoint exists once its record does, which is written last. */
export class CheckpointRecords {
  readonly #storage: CheckpointStorage;
  readonly #known = new Map<string, CheckpointInfo>();
  #lastTime = 0;

  constructor(storage: CheckpointStorage) {
    this.#storage = storage;
  }

  async add(info: Omit<CheckpointInfo, "id" | "timestamp">): Promise<CheckpointInfo> {
    // Ids sort by their time, so no two of this process may share a millisecond.
    this.#lastTime = Math.max(Date.now(), this.#lastTime + 1);
    const id = createId("checkpoint", this.#lastTime);
    const added = { id, timestamp: new Date(this.#lastTime).toISOString(), ...info };
    if (info.sessionId !== undefined)
      await this.#storage.put(toSessionKey(info.sessionId, id), new Uint8Array());
    await this.#storage.put(toKey(id), Buffer.from(`${JSON.stringify(added)}\n`));
    return added;
  }

  async get(id: string): Promise<CheckpointInfo | undefined> {
    if (!CheckpointId.safeParse(id).success) return undefined;
    const known = this.#known.get(id);
    // The record's existence is checked even if it is cached: another process may have removed it.
    if (known !== undefined) return (await this.#storage.has(toKey(id))) ? known : undefined;
    const bytes = await this.#storage.get(toKey(id));
    return bytes === undefined ? undefined : this.#remember(id, bytes);
  }

  async latest(sessionId?: string): Promise<CheckpointInfo | undefined> {
    return (await this.list({ limit: 1, sessionId }))[0];
  }

  /** Newest first: ids sort by their time. */
  async list({ limit = Number.POSITIVE_INFINITY, ...query }: CheckpointQuery): Promise<CheckpointInfo[]> {
    const { sessionId, before } = query;
    const all = await this.#ids(sessionId);
    const ids = (before === undefined ? all : all.filter((id) => id < before)).sort().toReversed();
    const found: CheckpointInfo[] = [];
    for (let n = 0; n < ids.length && found.length < limit; n += AT_ONCE) {
      const batch = await Promise.all(ids.slice(n, n + AT_ONCE).map((id) => this.#read(id)));
      for (const info of batch) if (info !== undefined && found.length < limit) found.push(info);
    }
    return found;
  }

  async remove(id: string): Promise<boolean> {
    const info = await this.get(id);
    if (info === undefined) return false;
    await this.#storage.delete(toKey(id));
    if (info.sessionId !== undefined) await this.#storage.delete(toSessionKey(info.sessionId, id));
    this.#known.delete(id);
    return true;
  }

  async #ids(sessionId: string | undefined): Promise<string[]> {
    const prefix = sessionId === undefined ? "checkpoints/" : `sessions/${demandSession(sessionId)}/`;
    const keys = await this.#storage.list(prefix);
    return keys.map((key) => key.slice(prefix.length).replace(/\.json$/, ""));
  }

  /** Undefined for a damaged record, so that a list shows the others. */
  async #read(id: string): Promise<CheckpointInfo | undefined> {
    return (
      this.#known.get(id) ??
      this.get(id).catch((error: unknown) => {
        if (error instanceof SluiceError && "corrupt" in error.facts) return undefined;
        throw error;
      })
    );
  }

  #remember(id: string, bytes: Uint8Array): CheckpointInfo {
    const info = parseInfo(id, bytes);
    if (this.#known.size >= 10_000) this.#known.clear();
    this.#known.set(id, info);
    return info;
  }
}

function parseInfo(id: string, bytes: Uint8Array): CheckpointInfo {
  try {
    const info = StoredInfo.parse(JSON.parse(new TextDecoder().decode(bytes)));
    if (info.id === id) return info;
  } catch {
    // The error below covers this case.
  }
  throw corrupt(toKey(id), "is not the record of this checkpoint");
}

function toKey(id: string): string {
  return `checkpoints/${id}.json`;
}

function toSessionKey(sessionId: string, id: string): string {
  return `sessions/${demandSession(sessionId)}/${id}`;
}

function demandSession(sessionId: string): string {
  const parsed = SessionId.safeParse(sessionId);
  if (parsed.success) return parsed.data;
  throw new SluiceError("invalid_request", `${JSON.stringify(sessionId)} is not a session's id.`);
}
