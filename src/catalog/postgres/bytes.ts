import { createHash, randomBytes } from "node:crypto";
import type { Connections, Query } from "../../postgres/connections.ts";
import type { Bytes, HeldBytes, StoredBytes, WriteBytesOptions } from "../port.ts";
import { bytesMissing, bytesTooLarge } from "../refusals.ts";

const HASH = /^[0-9a-f]{64}$/;
const CHUNK_BYTES = 512 * 1024;
/** A hold, or an unfinished content, older than this counts as forgotten. */
const FORGOTTEN_MS = 60 * 60_000;
const DRAFT = "draft-";

/** Stored bytes in rows of half a megabyte. A content is unfinished until a row of `contents` names it. */
export class TableBytes implements Bytes {
  readonly #database: Connections;
  readonly #now: () => number;

  constructor(database: Connections, now: () => number) {
    this.#database = database;
    this.#now = now;
  }

  async write(
    source: AsyncIterable<Uint8Array>,
    { limit = Infinity }: WriteBytesOptions = {},
  ): Promise<HeldBytes> {
    const draft = `${DRAFT}${Date.now().toString(36).padStart(9, "0")}-${randomBytes(8).toString("hex")}`;
    try {
      const { hash, size } = await this.#stage(draft, source, limit);
      const hold = await this.#keep(draft, hash, size);
      return { hash, size, release: () => this.#release(hold) };
    } catch (error) {
      await this.#database.query(DROP_CHUNKS, [draft]).catch(() => {});
      throw error;
    }
  }

  async read(hash: string): Promise<StoredBytes | undefined> {
    if (!HASH.test(hash)) return undefined;
    const [row] = await this.#database.query("SELECT size FROM sluice.contents WHERE hash = $1", [hash]);
    if (!row) return undefined;
    const size = Number(row["size"]);
    return { size, stream: () => this.#stream(hash, size) };
  }

  /** Replaces the uses of a document, in its transaction. The lock keeps the contents until its end. */
  async use(query: Query, document: number, hashes: readonly string[]): Promise<void> {
    await query(
      `INSERT INTO sluice.content_doubts SELECT hash FROM sluice.content_uses WHERE document = $1::bigint
       ON CONFLICT DO NOTHING`,
      [document],
    );
    await query("DELETE FROM sluice.content_uses WHERE document = $1::bigint", [document]);
    for (const hash of hashes) {
      const [content] = await query("SELECT 1 FROM sluice.contents WHERE hash = $1 FOR SHARE", [hash]);
      if (!content) throw bytesMissing(hash);
      await query("INSERT INTO sluice.content_uses VALUES ($1::bigint, $2) ON CONFLICT DO NOTHING", [
        document,
        hash,
      ]);
    }
  }

  /** Removes unused contents. A failed removal is tried again after the next change. */
  async settle(): Promise<void> {
    await this.#database.transact((query) => this.#removeUnused(query)).catch(() => {});
  }

  /** Removes the unfinished contents of processes that died. */
  async removeForgotten(): Promise<void> {
    const before = (Date.now() - FORGOTTEN_MS).toString(36).padStart(9, "0");
    await this.#database.query(
      `DELETE FROM sluice.content_chunks WHERE content >= '${DRAFT}' AND content < $1`,
      [DRAFT + before],
    );
  }

  async #stage(
    draft: string,
    source: AsyncIterable<Uint8Array>,
    limit: number,
  ): Promise<{ hash: string; size: number }> {
    const digest = createHash("sha256");
    let [size, n, waiting] = [0, 0, Buffer.alloc(0)];
    const flush = async (): Promise<void> => {
      const data = waiting.toString("base64");
      waiting = Buffer.alloc(0);
      await this.#database.query(
        "INSERT INTO sluice.content_chunks VALUES ($1, $2::int, decode($3, 'base64'))",
        [draft, n++, data],
      );
    };
    for await (const chunk of source) {
      size += chunk.length;
      if (size > limit) throw bytesTooLarge(limit);
      digest.update(chunk);
      waiting = Buffer.concat([waiting, chunk]);
      if (waiting.length >= CHUNK_BYTES) await flush();
    }
    if (waiting.length > 0) await flush();
    return { hash: digest.digest("hex"), size };
  }

  /**
   * The row of the content is locked until the hold is stored, so that nobody removes it in between. PostgreSQL's `xmax`
   * is 0 for a row that this statement has inserted: an older row has its chunks already.
   */
  #keep(draft: string, hash: string, size: number): Promise<number> {
    return this.#database.transact(async (query) => {
      const [content] = await query(
        `INSERT INTO sluice.contents VALUES ($1, $2::bigint)
         ON CONFLICT (hash) DO UPDATE SET size = excluded.size RETURNING xmax = 0 AS is_new`,
        [hash, size],
      );
      await query("INSERT INTO sluice.content_doubts VALUES ($1) ON CONFLICT DO NOTHING", [hash]);
      if (content?.["is_new"] === true)
        await query("UPDATE sluice.content_chunks SET content = $1 WHERE content = $2", [hash, draft]);
      else await query(DROP_CHUNKS, [draft]);
      const [hold] = await query(
        "INSERT INTO sluice.content_holds (hash, until) VALUES ($1, $2::bigint) RETURNING id",
        [hash, this.#now() + FORGOTTEN_MS],
      );
      return Number(hold?.["id"]);
    });
  }

  async #release(hold: number): Promise<void> {
    await this.#database.query("DELETE FROM sluice.content_holds WHERE id = $1::bigint", [hold]);
    await this.settle();
  }

  async #removeUnused(query: Query): Promise<void> {
    const now = this.#now();
    const expiring = await query(
      `UPDATE sluice.documents SET bytes_until = NULL WHERE bytes_until <= $1::bigint RETURNING ordinal`,
      [now],
    );
    for (const row of expiring) await this.use(query, Number(row["ordinal"]), []);
    await query("DELETE FROM sluice.content_holds WHERE until <= $1::bigint", [now]);
    for (const row of await query("SELECT hash FROM sluice.content_doubts ORDER BY hash LIMIT 1000")) {
      const hash = String(row["hash"]);
      await query("SELECT 1 FROM sluice.contents WHERE hash = $1 FOR UPDATE", [hash]);
      const [state] = await query(
        `SELECT EXISTS (SELECT 1 FROM sluice.content_holds WHERE hash = $1) AS held,
           EXISTS (SELECT 1 FROM sluice.content_uses WHERE hash = $1) AS used`,
        [hash],
      );
      if (state?.["held"] === true) continue;
      if (state?.["used"] !== true) {
        await query("DELETE FROM sluice.contents WHERE hash = $1", [hash]);
        await query(DROP_CHUNKS, [hash]);
      }
      await query("DELETE FROM sluice.content_doubts WHERE hash = $1", [hash]);
    }
  }

  /** Each chunk is a query of its own, so the content may be removed between two of them. */
  #stream(hash: string, size: number): ReadableStream<Uint8Array> {
    let [n, left] = [0, size];
    return new ReadableStream({
      pull: async (controller) => {
        const [row] = await this.#database.query(
          "SELECT encode(data, 'base64') AS data FROM sluice.content_chunks WHERE content = $1 AND n = $2::int",
          [hash, n++],
        );
        if (!row && left > 0) throw bytesMissing(hash);
        if (!row) return controller.close();
        const data = Buffer.from(String(row["data"]), "base64");
        left -= data.length;
        controller.enqueue(new Uint8Array(data));
      },
    });
  }
}

const DROP_CHUNKS = "DELETE FROM sluice.content_chunks WHERE content = $1";
