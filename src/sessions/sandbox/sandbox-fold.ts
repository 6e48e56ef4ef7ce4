import { defined } from "../../contract/own-keys.ts";
import type { EventData, EventDraft } from "../../contract/index.ts";

/** The sandbox in a session's log. */
export interface KnownSandbox {
  readonly id: string;
  readonly provider: string;
  /** The server that has it, where several share the log. */
  readonly node?: string;
}

/** The part of a session's fold about its sandbox. */
export interface SandboxFold {
  sandbox: KnownSandbox | null;
  /** The sandbox that the session moves to. Nothing starts meanwhile, and `sandbox` keeps its files. */
  moving?: KnownSandbox;
}

/** Applies an event about the session's sandbox as a whole. */
export function applyToSandbox(
  fold: SandboxFold & { paused: boolean; recorded?: unknown },
  event: Extract<
    EventDraft,
    { type: "sandbox.boot" | "sandbox.connected" | "sandbox.moving" | "sandbox.killed" | "sandbox.error" }
  >,
): void {
  if (event.type === "sandbox.moving") {
    fold.moving = toKnown(event.data);
    return;
  }
  delete fold.moving;
  if (event.type === "sandbox.killed" || event.type === "sandbox.error") {
    fold.sandbox = null;
    fold.paused = false;
    return;
  }
  // A new sandbox has new records.
  if (event.type === "sandbox.boot" || event.data.sandbox_id !== fold.sandbox?.id) delete fold.recorded;
  fold.sandbox = toKnown(event.data);
}

function toKnown({ sandbox_id: id, provider, node }: EventData<"sandbox.boot">): KnownSandbox {
  return { id, provider, ...defined({ node }) };
}
