import type { Catalog, Change, Document } from "../../catalog/port.ts";
import { type EventType, SluiceError, type SluiceEvent } from "../../contract/index.ts";
import { type ChatTurn, fromReplay, toTurns } from "../../dialects/ndjson/index.ts";
import { hasResult } from "../../dialects/ndjson/project.ts";
import { toText } from "../../dialects/shared/text.ts";
import { type EventLog, readKept, type SessionRow } from "../../log/port.ts";
import { KeyedLock } from "../keyed-lock.ts";
import {
  type AssetBody,
  type ConversationBody,
  KIND,
  type MessageBody,
  toDocumentId,
  type TurnBody,
  type TurnStatus,
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

/** An ended turn, with the conversation's document after it. */
interface EndedTurn {
  readonly turn: string;
  readonly status: TurnStatus;
  readonly messages: readonly MessageBody[];
  /** The history that the client sent with its first message. */
  readonly brought: readonly MessageBody[];
  readonly body: ConversationBody;
}

const TYPES: ReadonlySet<EventType> = new Set(["item.completed", "session.updated", "turn.ended"]);
const PAGE = 256;

/** The turns that have ended since the conversation was last read. */
async function* readEndedTurns(
  log: EventLog,
  session: string,
  from: ConversationBody,
): AsyncGenerator<EndedTurn> {
  let body = from;
  let open = new OpenTurn();
  for (let after = from.applied; ;) {
    const events = await readKept(log, session, { after, limit: PAGE, types: TYPES });
    const last = events.at(-1);
    if (!last) return;
    after = last.sequence;
    for (const stored of events) {
      const event = JSON.parse(stored.body) as SluiceEvent;
      if (event.type !== "turn.ended") {
        open.see(event);
        continue;
      }
      const ended = open.end(body, event);
      body = ended.body;
      open = new OpenTurn();
      yield ended;
    }
  }
}

class OpenTurn {
  readonly #prompts: string[] = [];
  #answer: string | undefined;
  #replayed: readonly ChatTurn[] | undefined;
  #hasForgotten = false;

  see(event: SluiceEvent): void {
    if (event.type === "session.updated" && event.data.native_session_id === null) this.#hasForgotten = true;
    if (event.type !== "item.completed" || event.data.item.kind !== "message") return;
    const { role, content, status } = event.data.item;
    const text = toText(content);
    if (role === "user") {
      this.#prompts.push(text);
      this.#replayed = fromReplay(content)?.earlier_conversation ?? this.#replayed;
    }
    const isOwn = role === "assistant" && event.parent_id === undefined && status !== "failed";
    if (isOwn && text !== "") this.#answer = text;
  }

  end(before: ConversationBody, event: Extract<SluiceEvent, { type: "turn.ended" }>): EndedTurn {
    const { turn_id: turn, status } = event.data;
    const ts = Date.parse(event.time);
    const replayed = this.#replayed ?? [];
    const brought = before.turns === 0 ? replayed : [];
    const known = this.#hasForgotten ? 0 : before.remembered;
    const messages: MessageBody[] = [];
    if (this.#prompts.length > 0)
      messages.push({ role: "user", content: this.#prompts.join("\n\n"), turn, ts });
    if (hasResult(event.data, this.#answer))
      messages.push({ role: "assistant", content: this.#answer ?? "", turn, ts });
    return {
      turn,
      status,
      messages,
      brought: brought.flatMap(toMessages),
      body: {
        ordinal: before.ordinal,
        applied: event.sequence,
        turns: before.turns + brought.length + 1,
        remembered: known + replayed.length + 1,
      },
    };
  }
}

function toMessages({ user, assistant }: ChatTurn): MessageBody[] {
  return [
    ...(user === undefined ? [] : [{ role: "user", content: user } as const]),
    ...(assistant === undefined ? [] : [{ role: "assistant", content: assistant } as const]),
  ];
}
