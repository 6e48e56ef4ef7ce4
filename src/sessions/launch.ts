import { SluiceError, type EventDraft } from "../contract/index.ts";
import type { Sandbox } from "../sandbox/port.ts";
import { startProcess } from "./boot.ts";
import type { SessionContext } from "./context.ts";
import { endUnstarted } from "./ending.ts";
import { instructionChange } from "./instructions.ts";
import type { HarnessProcess } from "./process.ts";

/** Says in the log that a process starts, and starts it; `told` is what the log should say of that. Under the lock. */
export async function launchProcess(
  { deps, writer, commit }: SessionContext,
  sandbox: Sandbox,
): Promise<{ process: HarnessProcess; told: readonly EventDraft[] }> {
  const { row, fold } = writer;
  const ordinal = fold.processes + 1;
  const resumed = fold.nativeSessionId ?? undefined;
  const data = {
    process: ordinal,
    harness: row.spec.agent,
    ...(resumed === undefined ? {} : { resumed }),
  };
  await commit(
    writer.drafts([...instructionChange(writer), { type: "process.started", source: "daemon", data }]),
  );
  const told: EventDraft[] = [];
  const tell = (events: readonly EventDraft[]): void => void told.push(...events);
  const start = { ordinal, resumed, tell };
  return { process: await startProcess(deps, { ...row, spec: writer.spec }, sandbox, start), told };
}

/** Ends a process that was started and cannot be used; all that runs in its sandbox too, where it is alone there. */
export async function discardProcess(
  { spool, sandbox }: HarnessProcess,
  { alone }: { alone: boolean },
): Promise<void> {
  const pid = await spool.pid();
  if (alone) await sandbox.killAll();
  else if (pid !== undefined) await sandbox.signal(pid, "SIGKILL");
  await spool.remove();
}

/** Tells in the log why no process could be started, and ends the turn that it was for. Under the lock. */
export async function failLaunch({ deps, writer, commit }: SessionContext, error: unknown): Promise<void> {
  const { fold, row } = writer;
  const message = error instanceof Error ? error.message : String(error);
  const code = error instanceof SluiceError ? error.code : "internal";
  // The turn's own events tell it too.
  deps.logger({ level: "warn", message: "the agent could not be started", session: row.id, error: message });
  const drafts = writer.drafts();
  endUnstarted(fold, drafts, { code, message });
  await commit(drafts);
}
