import { z } from "zod";
import {
  EVENT_DATA,
  EVENT_TYPES,
  type EventDraft,
  type SessionSpec,
  type SluiceEvent,
} from "../../src/contract/index.ts";
import { createSqliteLog } from "../../src/log/index.ts";
import { Drafts } from "../../src/sessions/fold/drafts.ts";
import { emptyFold } from "../../src/sessions/fold/session-fold.ts";

/** A session for a data folder, with the times of its events. */
export interface Seed {
  readonly id: string;
  readonly spec?: Partial<SessionSpec>;
  /** Appends: the events of each have one time. */
  readonly batches: Iterable<{ readonly time: number; readonly events: readonly EventDraft[] }>;
  /** The time of its creation. */
  readonly time: number;
}

/**
 * Writes sessions with the product's own log and fold, before a server starts on the folder. Only so can a test have
 * 100,000 events in a second, and times that are the same in every run.
 */
export async function seed(folder: string, sessions: Iterable<Seed>): Promise<void> {
  const log = createSqliteLog({ folder });
  const writes: Promise<unknown>[] = [];
  for (const { id, spec, batches, time } of sessions) {
    const write = async (): Promise<void> => {
      const whole = { agent: "scripted", sandbox: "local", ...spec };
      const { epoch } = await log.create({ id, spec: whole, owner: "seed", time });
      const fold = emptyFold();
      for (const batch of batches) {
        const drafts = new Drafts(fold, batch.time);
        drafts.addAll(batch.events);
        const { events, turns, usage } = drafts;
        const history = turns.length > 0 && { history: { turns, folds: [] } };
        await log.append(id, {
          epoch,
          time: batch.time,
          events,
          usage,
          ...(drafts.endsTurn && { snapshot: fold }),
          ...history,
        });
      }
    };
    writes.push(write());
    if (writes.length >= 200) await Promise.all(writes.splice(0));
  }
  await Promise.all(writes);
  await log.close();
}

/** One event of the server. */
export function draft<T extends EventDraft["type"]>(
  type: T,
  data: Extract<EventDraft, { type: T }>["data"],
  more: { source?: "agent" | "daemon"; parent_id?: string } = {},
): EventDraft {
  return { type, data, source: "agent", ...more } as EventDraft;
}

/** A stored event as a draft again. */
export function toDraft({ type, data, source, parent_id, native_session_id }: SluiceEvent): EventDraft {
  return { type, data, source, parent_id, native_session_id } as EventDraft;
}

/** A turn that says something, in as many deltas as it has texts. */
export function spokenTurn(turn: number, prompt: string, texts: readonly string[]): EventDraft[] {
  const ids = { turn_id: `turn_${turn}`, input_id: `inp_${turn}` };
  const content = [{ type: "text" as const, text: prompt }];
  const user = { item_id: `itm_u${turn}`, kind: "message", role: "user", status: "completed", content };
  const answer = { item_id: `itm_a${turn}`, kind: "message", role: "assistant" };
  const whole = [{ type: "text", text: texts.join("") }];
  return [
    draft("input.accepted", { ...ids, via: "universal", content }, { source: "daemon" }),
    draft(
      "turn.started",
      { turn_id: ids.turn_id, input_ids: [ids.input_id], inputs: [] },
      { source: "daemon" },
    ),
    draft("item.started", { item: { ...user, status: "in_progress" } } as never, { source: "daemon" }),
    draft("item.completed", { item: user } as never, { source: "daemon" }),
    draft("item.started", { item: { ...answer, status: "in_progress", content: [] } } as never),
    ...texts.map((delta) => draft("item.delta", { item_id: answer.item_id, delta })),
    draft("item.completed", { item: { ...answer, status: "completed", content: whole } } as never),
    draft("turn.ended", { turn_id: ids.turn_id, status: "completed", stop_reason: "end_turn" } as never),
  ];
}

/** One event of every type of the contract, and one of a type that this page does not know. */
export function everyType(): EventDraft[] {
  const known = EVENT_TYPES.filter((type) => type !== "session.deleted" && type !== "session.ended");
  const drafts = known.map((type) =>
    draft(type, sampleOf(z.toJSONSchema(EVENT_DATA[type]), type.split(".")[0] ?? type) as never),
  );
  const future = { type: "future.thing", source: "daemon", data: { brand: "new" } } as never;
  return [...drafts, future, draft("session.ended", { reason: "completed", terminated_by: "daemon" })];
}

/** A value of a schema with all its fields, whose texts are one word: events of one noun are about one thing. */
function sampleOf(schema: unknown, word: string): unknown {
  const { type: types, enum: values, const: only, anyOf, oneOf, items, properties } = schema as Schema;
  const type = Array.isArray(types) ? types[0] : types;
  if (only !== undefined) return only;
  if (values) return values[0];
  const [first] = anyOf ?? oneOf ?? [];
  if (first) return sampleOf(first, word);
  if (type === "array") return [sampleOf(items ?? {}, word)];
  if (type === "object")
    return Object.fromEntries(
      Object.entries(properties ?? {}).map(([name, part]) => [name, sampleOf(part, word)]),
    );
  if (type === "integer" || type === "number") return 1;
  return type === "boolean" ? true : type === "string" ? word : {};
}

interface Schema {
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly unknown[];
  readonly oneOf?: readonly unknown[];
  readonly items?: unknown;
  readonly properties?: Readonly<Record<string, unknown>>;
}
