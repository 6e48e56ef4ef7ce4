import type { Document } from "../../../catalog/port.ts";
import type { SluiceEvent } from "../../../contract/index.ts";
import { toTimestamp } from "../../../dialects/anthropic/resources/resource.ts";
import {
  toWebhookBody,
  toWebhookTypes,
  WEBHOOK_EVENTS,
  type WebhookType,
} from "../../../dialects/anthropic/webhook.ts";
import { type EventLog, readKept } from "../../../log/port.ts";
import { digestOf } from "../../digest.ts";
import type { Cursor, Cursors } from "./cursors.ts";
import type { Endpoint } from "./endpoint.ts";

const PAGE = 256;
/** How long the removal of a session may take after its event `session.deleted`. */
const REMOVAL_MS = 5_000;

/** Delivers the events after a cursor to one endpoint, and moves the cursor when they are accepted. */
export class Delivery {
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

  /** Delivers all new events of a session; false if the endpoint did not accept one. */
  async deliver(session: string): Promise<boolean> {
    let cursor = await this.#cursors.find(session);
    const row = await this.#log.find(session);
    if (cursor && cursor.body.created_at !== row?.createdAt) {
      if (!(await this.#reportDeleted(cursor))) return false;
      cursor = undefined;
    }
    if (!row) return true;
    if (!cursor) {
      const { createdAt } = row;
      const time = toTimestamp(createdAt);
      const workspace = await this.#cursors.workspaceOf(session);
      const report = { session, createdAt, sequence: 0, type: "session.created", time, workspace } as const;
      if (!(await this.#report(report))) return false;
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
      // The session was removed during the read.
      if (!page) return this.#reportDeleted(cursor);
      if (page.length === 0) return true;
      for (const event of page) {
        after = event.sequence;
        if (event.type === "session.deleted") {
          if (await this.#isRemoved(session, after)) return this.#reportDeleted(cursor);
          continue;
        }
        const types = toWebhookTypes(event);
        for (const type of types) {
          const { sequence, time } = event;
          if (!(await this.#report({ session, createdAt, sequence, type, time, workspace }))) return false;
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

  /** Reports a deletion from the cursor alone, as the log has nothing left of the session. */
  async #reportDeleted(found: Document<Cursor>): Promise<boolean> {
    const cursor =
      found.body.deleted_at === null ? await this.#cursors.move(found, { deleted_at: Date.now() }) : found;
    const { session, created_at: createdAt, deleted_at } = cursor.body;
    const time = toTimestamp(deleted_at ?? 0);
    const workspace = await this.#workspaceOf(cursor);
    if (!(await this.#report({ session, createdAt, sequence: -1, type: "session.deleted", time, workspace })))
      return false;
    await this.#cursors.remove(cursor);
    return true;
  }

  async #workspaceOf({ body }: Document<Cursor>): Promise<string> {
    return body.workspace ?? this.#cursors.workspaceOf(body.session);
  }

  #report(report: Report): Promise<boolean> {
    const id = toWebhookId(report);
    return this.#endpoint.deliver({ id, body: toWebhookBody({ ...report, id }) });
  }
}

interface Report {
  readonly session: string;
  readonly createdAt: number;
  readonly sequence: number;
  readonly type: WebhookType;
  readonly time: string;
  readonly workspace: string;
}

/** Every server computes the same id for the same event, so a receiver can drop a repeated delivery. */
function toWebhookId({ session, createdAt, sequence, type }: Report): string {
  return `wevt_${digestOf(session, createdAt, sequence, type).slice(0, 32)}`;
}
