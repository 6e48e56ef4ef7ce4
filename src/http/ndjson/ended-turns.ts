import type { EventType, SluiceEvent } from "../../contract/index.ts";
import { hasResult } from "../../dialects/ndjson/project.ts";
import { type ChatTurn, fromReplay } from "../../dialects/ndjson/index.ts";
import { toText } from "../../dialects/shared/text.ts";
import { readKept, type EventLog } from "../../log/port.ts";
import type { ConversationBody, MessageBody, TurnStatus } from "./documents.ts";

/** An ended turn, with the conversation's document after it. */
export interface EndedTurn {
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
export async function* readEndedTurns(
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
