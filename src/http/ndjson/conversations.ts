import type { Catalog, Change, Document } from "../../catalog/port.ts";
import { SluiceError } from "../../contract/index.ts";
import { type ChatTurn, toTurns } from "../../dialects/ndjson/index.ts";
import type { EventLog, SessionRow } from "../../log/port.ts";
import { KeyedLock } from "../keyed-lock.ts";
import { type EndedTurn, readEndedTurns } from "./ended-turns.ts";
import {
  type AssetBody,
  type ConversationBody,
  KIND,
  type MessageBody,
  toDocumentId,
  type TurnBody,
} from "./documents.ts";

/** A conversation's document, which includes the last ended turn of the log. */
export type Conversation = Document<ConversationBody>;

const MAX_TRIES = 8;

/**
 * The messages of conversations, and the records of their turns. The log is the source of truth, and the documents
 * follow it. The end of a turn is applied in one transaction with its sequence, so that no crash can apply it twice.
 */
export class Conversations {
  readonly #catalog: Catalog;
  readonly #log: EventLog;
  readonly #locks = new KeyedLock();

  constructor(catalog: Catalog, log: EventLog) {
    this.#catalog = catalog;
    this.#log = log;
  }

  /** Runs the tasks of one conversation one after the other, each with the up-to-date document. */
  with<T>(tenant: string, row: SessionRow, task: (found: Conversation) => Promise<T>): Promise<T> {
    return this.#locks.run(`${tenant}/${row.id}`, async () => {
      for (let tries = 1; ; tries += 1) {
        try {
          return await task(await this.#follow(tenant, row));
        } catch (error) {
          // Another server with the same data wrote first, so the task starts again.
          const isConflict = error instanceof SluiceError && error.code === "version_conflict";
          if (!isConflict || tries === MAX_TRIES) throw error;
        }
      }
    });
  }

  /** Writes documents of the conversation; fails if it has changed since it was read. */
  async write(
    tenant: string,
    { id, revision, body }: Conversation,
    changes: readonly Change[],
  ): Promise<void> {
    const claim: Change = { op: "replace", kind: KIND.conversation, id, expect: revision, body };
    await this.#catalog.write(tenant, [claim, ...changes]);
  }

  /** The newest turns, in chronological order. */
  async readTurns(tenant: string, { id }: Conversation, limit: number): Promise<ChatTurn[]> {
    if (limit <= 0) return [];
    const newest = await this.#messages(tenant, id, { order: "desc", limit: 2 * limit });
    return toTurns(newest.map(({ body }) => body).toReversed()).slice(-limit);
  }

  async readMessages(
    tenant: string,
    { id }: Conversation,
    page: { after?: number | undefined; limit: number },
  ): Promise<Document<MessageBody>[]> {
    return this.#messages(tenant, id, { order: "asc", ...page });
  }

  async findTurn(tenant: string, turn: string): Promise<Document<TurnBody> | undefined> {
    return (await this.#catalog.find(tenant, KIND.turn, turn)) as Document<TurnBody> | undefined;
  }

  async forget(tenant: string, conversation: string): Promise<void> {
    const id = toDocumentId(conversation);
    if (!(await this.#catalog.find(tenant, KIND.conversation, id))) return;
    await this.#catalog.write(tenant, [{ op: "remove", kind: KIND.conversation, id, children: true }]);
  }

  async #messages(
    tenant: string,
    parent: string,
    page: { order: "asc" | "desc"; after?: number | undefined; limit: number },
  ): Promise<Document<MessageBody>[]> {
    const query = { kind: KIND.message, parent, ...page };
    return (await this.#catalog.list(tenant, query)) as Document<MessageBody>[];
  }

  async #follow(tenant: string, row: SessionRow): Promise<Conversation> {
    let found = await this.#find(tenant, row);
    for await (const ended of readEndedTurns(this.#log, row.id, found.body)) {
      found = await this.#apply(tenant, found, ended);
    }
    return found;
  }

  async #find(tenant: string, row: SessionRow): Promise<Conversation> {
    const id = toDocumentId(row.id);
    const found = (await this.#catalog.find(tenant, KIND.conversation, id)) as Conversation | undefined;
    if (found?.body.ordinal === row.ordinal) return found;
    const body: ConversationBody = { ordinal: row.ordinal, applied: row.floor, turns: 0, remembered: 0 };
    if (found) await this.forget(tenant, row.id);
    const [made] = await this.#catalog.write(tenant, [{ op: "create", kind: KIND.conversation, id, body }]);
    return made as Conversation;
  }

  async #apply(tenant: string, found: Conversation, ended: EndedTurn): Promise<Conversation> {
    const { id, revision } = found;
    const [written] = await this.#catalog.write(tenant, [
      { op: "replace", kind: KIND.conversation, id, expect: revision, body: ended.body },
      ...ended.brought.map((body, index) => toMessage(found, `brought:${index}`, body)),
      ...ended.messages.map((body) => toMessage(found, `${ended.turn}:${body.role}`, body)),
      ...(await this.#settleTurn(tenant, ended)),
      ...(await this.#settleAssets(tenant, id, ended)),
    ]);
    return written as Conversation;
  }

  async #settleTurn(tenant: string, { turn, status }: EndedTurn): Promise<Change[]> {
    const found = await this.findTurn(tenant, turn);
    if (!found) return [];
    const body: TurnBody = { ...found.body, status };
    return [{ op: "replace", kind: KIND.turn, id: turn, expect: found.revision, body }];
  }

  /** The end of a run publishes the assets that it sent before; a cancelled run drops them. */
  async #settleAssets(tenant: string, parent: string, { turn, status }: EndedTurn): Promise<Change[]> {
    const labels = { turn, state: "staged" };
    const staged = await this.#catalog.list(tenant, { kind: KIND.asset, parent, labels, limit: 1000 });
    return staged.map(({ id, revision, body }): Change => {
      if (status === "interrupted") return { op: "remove", kind: KIND.asset, id };
      const written = { turn, state: "written" };
      return {
        op: "replace",
        kind: KIND.asset,
        id,
        expect: revision,
        body: body as AssetBody,
        labels: written,
      };
    });
  }
}

function toMessage({ id }: Conversation, name: string, body: MessageBody): Change {
  return { op: "create", kind: KIND.message, id: `${id}:${name}`, parent: id, body };
}
