import { createHash } from "node:crypto";
import type { Document } from "../../../catalog/port.ts";
import type { SluiceEvent } from "../../../contract/index.ts";
import { toTimestamp } from "../../../dialects/anthropic/resources/stored.ts";
import {
  toWebhookBody,
  toWebhookTypes,
  WEBHOOK_EVENTS,
  type WebhookType,
} from "../../../dialects/anthropic/webhook.ts";
import type { EventLog } from "../../../log/port.ts";
import { readKept } from "../../../log/read-kept.ts";
import type { Cursor, Cursors } from "./cursors.ts";
import type { Endpoint } from "./endpoint.ts";

const PAGE = 256;
const REMOVAL_MS = 5_000;

/** Between one endpoint's cursors and the log: tells what lies behind a cursor, and moves it when that was taken. */
export class Courier {
  readonly #log: EventLog;
  readonly #cursors: Cursors;
  readonly #endpoint: Endpoint;
  readonly #signal: AbortSignal;

  constructor(options: { log: EventLog; cursors: Cursors; endpoint: Endpoint; signal: AbortSignal }) {
    this.#log = options.log;
    this.#cursors = options.cursors;
    this.#endpoint = options.endpoint;
    this.#signal = options.signal;
  }

  /** All that there is to tell of a session; false where the endpoint did not take it. */
  async visit(session: string): Promise<boolean> {
    let cursor = await this.#cursors.find(session);
    const row = await this.#log.find(session);
    if (cursor && cursor.body.created_at !== row?.createdAt) {
      if (!(await this.#tellDeleted(cursor))) return false;
      cursor = undefined;
    }
    if (!row) return true;
    if (!cursor) {
      const { createdAt } = row;
      const time = toTimestamp(createdAt);
      const workspace = await this.#cursors.workspaceOf(session);
      const fact = { session, createdAt, sequence: 0, type: "session.created", time, workspace } as const;
      if (!(await this.#tell(fact))) return false;
      cursor = await this.#cursors.begin(row, workspace);
    }
    return this.#catchUp(cursor);
  }

  async #catchUp(from: Document<Cursor>): Promise<boolean> {
    const { session, created_at: createdAt } = from.body;
    let cursor = from;
    let { after } = cursor.body;
    const workspace = await this.#workspaceOf(cursor);
    for (;;) {
      const page = await this.#read(session, after);
      // Between the last word and the removal.
      if (!page) return this.#tellDeleted(cursor);
      if (page.length === 0) return true;
      for (const event of page) {
        after = event.sequence;
        if (event.type === "session.deleted") {
          if (await this.#isRemoved(session, after)) return this.#tellDeleted(cursor);
          continue;
        }
        const types = toWebhookTypes(event);
        for (const type of types) {
          const { sequence, time } = event;
          if (!(await this.#tell({ session, createdAt, sequence, type, time, workspace }))) return false;
        }
        if (types.length > 0) cursor = await this.#cursors.move(cursor, { after });
      }
    }
  }

  async #read(session: string, after: number): Promise<SluiceEvent[] | undefined> {
    try {
      const stored = await readKept(this.#log, session, { after, limit: PAGE, types: WEBHOOK_EVENTS });
      return stored.map(({ body }) => JSON.parse(body) as SluiceEvent);
    } catch (error) {
      if (await this.#log.find(session)) throw error;
      return undefined;
    }
  }

  async #isRemoved(session: string, after: number): Promise<boolean> {
    const signal = AbortSignal.any([this.#signal, AbortSignal.timeout(REMOVAL_MS)]);
    await this.#log.moved(session, after, { signal }).catch(() => {});
    return (await this.#log.find(session)) === undefined;
  }

  /** The log has nothing left to say it by; the cursor has. */
  async #tellDeleted(found: Document<Cursor>): Promise<boolean> {
    const cursor =
      found.body.deleted_at === null ? await this.#cursors.move(found, { deleted_at: Date.now() }) : found;
    const { session, created_at: createdAt, deleted_at } = cursor.body;
    const time = toTimestamp(deleted_at ?? 0);
    const workspace = await this.#workspaceOf(cursor);
    if (!(await this.#tell({ session, createdAt, sequence: -1, type: "session.deleted", time, workspace })))
      return false;
    await this.#cursors.remove(cursor);
    return true;
  }

  async #workspaceOf({ body }: Document<Cursor>): Promise<string> {
    return body.workspace ?? this.#cursors.workspaceOf(body.session);
  }

  #tell(fact: Fact): Promise<boolean> {
    const id = toWebhookId(fact);
    return this.#endpoint.deliver({ id, body: toWebhookBody({ ...fact, id }) });
  }
}

interface Fact {
  readonly session: string;
  readonly createdAt: number;
  readonly sequence: number;
  readonly type: WebhookType;
  readonly time: string;
  readonly workspace: string;
}

/** A fact has one name, whoever tells it and how often. */
function toWebhookId({ session, createdAt, sequence, type }: Fact): string {
  const hash = createHash("sha256").update(JSON.stringify([session, createdAt, sequence, type]));
  return `wevt_${hash.digest("hex").slice(0, 32)}`;
}
