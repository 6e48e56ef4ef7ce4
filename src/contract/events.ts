import { z } from "zod";
import { EVENT_DATA, EVENT_TYPES, type EventData, type EventType } from "./event-data.ts";

export const EventSource = z.enum(["agent", "daemon"]);
export type EventSource = z.infer<typeof EventSource>;

const envelope = {
  event_id: z.string(),
  sequence: z.int().positive(),
  time: z.iso.datetime({ offset: true }),
  session_id: z.string(),
  native_session_id: z.string().optional(),
  source: EventSource,
  synthetic: z.boolean(),
  turn_id: z.string().optional(),
  parent_id: z.string().optional(),
  raw: z.unknown().optional(),
};

/** An event of the log, as clients of the universal dialect read it. */
export const SluiceEvent = z.discriminatedUnion(
  "type",
  EVENT_TYPES.map((type) =>
    z.strictObject({ ...envelope, type: z.literal(type), data: EVENT_DATA[type] }),
  ) as never,
) as unknown as z.ZodType<SluiceEvent>;

interface Envelope {
  event_id: string;
  sequence: number;
  time: string;
  session_id: string;
  native_session_id?: string;
  source: EventSource;
  synthetic: boolean;
  turn_id?: string;
  parent_id?: string;
  raw?: unknown;
}

export type SluiceEvent = { [T in EventType]: Envelope & { type: T; data: EventData<T> } }[EventType];
export type EventOf<T extends EventType> = Extract<SluiceEvent, { type: T }>;

/** An event before the log gives it a sequence, an id and a time. */
export type EventDraft = {
  [T in EventType]: {
    type: T;
    data: EventData<T>;
    source: EventSource;
    turn_id?: string | undefined;
    parent_id?: string | undefined;
    native_session_id?: string | undefined;
    /** The native line as JSON text; events of one line share the string. */
    raw?: string | undefined;
  };
}[EventType];

const SANDBOX_EVENTS: ReadonlySet<EventType> = new Set<EventType>([
  "sandbox.boot",
  "sandbox.ready",
  "sandbox.connected",
  "sandbox.moving",
  "sandbox.paused",
  "sandbox.resumed",
  "sandbox.killed",
  "sandbox.error",
  "process.started",
  "process.ended",
  "command.started",
  "command.ended",
  "checkpoint.created",
  "checkpoint.restored",
  "file.changed",
  "workspace.diffed",
]);

/** Fields that a debug log leaves out: they hold texts of people or contents of files. */
const WITHHELD: ReadonlySet<string> = new Set(["command", "comment", "stderr", "diff"]);

/** The fields of a sandbox event for a debug log; undefined for any other event. */
export function toSandboxNote(type: EventType, data: unknown): Record<string, unknown> | undefined {
  if (!SANDBOX_EVENTS.has(type)) return undefined;
  return Object.fromEntries(Object.entries(data as object).filter(([name]) => !WITHHELD.has(name)));
}
