import type { Catalog, Change, Document } from "../../catalog/port.ts";
import { SluiceError } from "../../contract/index.ts";
import { type ChatTurn, toTurns } from "../../dialects/ndjson/index.ts";
import type { EventLog, SessionRow } from "../../log/port.ts";
import { KeyedLock } from "../anthropic/keyed-lock.ts";
import { type EndedTurn, readEndedTurns } from "./follow.ts";
import {
  type AssetBody,
  type ConversationBody,
  KIND,
  type MessageBody,
  toDocumentId,
  type TurnBody,
} from "./records.ts";

/** A conversation as its documents have it, up to the log's last ended turn. */
export type Conversation = Document<ConversationBody>;

const MAX_TRIES = 8;

/**
 * The messages of conversations, and what belongs to their turns. The log is the truth, and the documents follow it:
 * each turn's end is applied in one transaction with how far was followed, so that a message is there once, whatever
 * was cut short before.
 */
export class Conversations {
  readonly #catalog: Catalog;
  readonly #log: EventLog;
  readonly #locks = new KeyedLock();

  constructor(catalog: Catalog, log: EventLog) {
    this.#catalog = catalog;
    this.#log = log;
  }

  /** One at a time for each conversation, which is up to date when the task has it. */
  with<T>(owner: string, row: SessionRow, task: (found: Conversation) => Promise<T>): Promise<T> {
    return this.#locks.run(`${owner}/${row.id}`, async () => {
      for (let tries = 1; ; tries += 1) {
        try {
          return await task(await this.#follow(owner, row));
        } catch (error) {
          // Another server on the same data was faster.
          const isLost = error instanceof SluiceError && error.code === "version_conflict";
          if (!isLost || tries === MAX_TRIES) throw error;
        }
      }
    });
  }

  /** Documents of the conversation, written only if nobody else has changed it since it was read. */
  async write(
    owner: string,
    { id, revision, body }: Conversation,
    changes: readonly Change[],
  ): Promise<void> {
    const claim: Change = { op: "replace", kind: KIND.conversation, id, expect: revision, body };
    await this.#catalog.write(owner, [claim, ...changes]);
  }

  /** The newest turns, the oldest of them first. */
  async readTurns(owner: string, { id }: Conversation, limit: number): Promise<ChatTurn[]> {
    if (limit <= 0) return [];
    const newest = await this.#messages(owner, id, { order: "desc", limit: 2 * limit });
    return toTurns(newest.map(({ body }) => body).toReversed()).slice(-limit);
  }

  async readMessages(
    owner: string,
    { id }: Conversation,
    page: { after?: number | undefined; limit: number },
  ): Promise<Document<MessageBody>[]> {
    return this.#messages(owner, id, { order: "asc", ...page });
  }

  async findTurn(owner: string, turn: string): Promise<Document<TurnBody> | undefined> {
    return (await this.#catalog.find(owner, KIND.turn, turn)) as Document<TurnBody> | undefined;
  }

  async forget(owner: string, conversation: string): Promise<void> {
    const id = toDocumentId(conversation);
    if (!(await this.#catalog.find(owner, KIND.conversation, id))) return;
    await this.#catalog.write(owner, [{ op: "remove", kind: KIND.conversation, id, children: true }]);
  }

  async #messages(
    owner: string,
    parent: string,
    page: { order: "asc" | "desc"; after?: number | undefined; limit: number },
  ): Promise<Document<MessageBody>[]> {
    const query = { kind: KIND.message, parent, ...page };
    return (await this.#catalog.list(owner, query)) as Document<MessageBody>[];
  }

  async #follow(owner: string, row: SessionRow): Promise<Conversation> {
    let found = await this.#find(owner, row);
    for await (const ended of readEndedTurns(this.#log, row.id, found.body)) {
      found = await this.#apply(owner, found, ended);
    }
    return found;
  }

  async #find(owner: string, row: SessionRow): Promise<Conversation> {
    const id = toDocumentId(row.id);
    const found = (await this.#catalog.find(owner, KIND.conversation, id)) as Conversation | undefined;
    if (found?.body.ordinal === row.ordinal) return found;
    const body: ConversationBody = { ordinal: row.ordinal, applied: row.floor, turns: 0, remembered: 0 };
    if (found) await this.forget(owner, row.id);
    const [made] = await this.#catalog.write(owner, [{ op: "create", kind: KIND.conversation, id, body }]);
    return made as Conversation;
  }

  async #apply(owner: string, found: Conversation, ended: EndedTurn): Promise<Conversation> {
    const { id, revision } = found;
    const [written] = await this.#catalog.write(owner, [
      { op: "replace", kind: KIND.conversation, id, expect: revision, body: ended.body },
      ...ended.brought.map((body, index) => toMessage(found, `brought:${index}`, body)),
      ...ended.messages.map((body) => toMessage(found, `${ended.turn}:${body.role}`, body)),
      ...(await this.#settleTurn(owner, ended)),
      ...(await this.#settleAssets(owner, id, ended)),
    ]);
    return written as Conversation;
  }

  async #settleTurn(owner: string, { turn, status }: EndedTurn): Promise<Change[]> {
    const found = await this.findTurn(owner, turn);
    if (!found) return [];
    const body: TurnBody = { ...found.body, status };
    return [{ op: "replace", kind: KIND.turn, id: turn, expect: found.revision, body }];
  }

  /** What a run sent while it worked is written back with its end, and dropped where it was cancelled. */
  async #settleAssets(owner: string, parent: string, { turn, status }: EndedTurn): Promise<Change[]> {
    const labels = { turn, state: "staged" };
    const staged = await this.#catalog.list(owner, { kind: KIND.asset, parent, labels, limit: 1000 });
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
