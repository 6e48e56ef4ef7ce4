import type { EventType } from "./events.ts";

const NOTED: ReadonlySet<EventType> = new Set<EventType>([
  "sandbox.boot",
  "sandbox.ready",
  "sandbox.connected",
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

/** What people and files say is no matter of a debug log. */
const WITHHELD: ReadonlySet<string> = new Set(["command", "comment", "stderr", "diff"]);

/** The facts of an event of a sandbox's life for a debug log; undefined where it is none. */
export function toSandboxNote(type: EventType, data: unknown): Record<string, unknown> | undefined {
  if (!NOTED.has(type)) return undefined;
  return Object.fromEntries(Object.entries(data as object).filter(([name]) => !WITHHELD.has(name)));
}
