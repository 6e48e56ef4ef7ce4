import { defined } from "../../contract/own-keys.ts";
import type { EventDraft } from "../../contract/index.ts";
import { attachProcess, readRedact } from "./launch.ts";
import type { SessionContext } from "../context.ts";
import { mayPass, messageOf } from "../failure.ts";
import type { Drafts } from "../fold/drafts.ts";
import { endProcess } from "./ending.ts";
import { isPastLost } from "../fold/load.ts";
import type { HarnessProcess } from "./process.ts";
import type { SessionSandbox } from "../sandbox/session-sandbox.ts";

/** The process of an earlier server. Undefined where it cannot be found; then its loss is in the log. */
export async function recoverProcess(
  context: SessionContext,
  sandbox: SessionSandbox,
): Promise<HarnessProcess | undefined> {
  const { deps, writer } = context;
  const { row, fold } = writer;
  if (isPastLost(row)) {
    await endLostPast(context, sandbox);
    return undefined;
  }
  if (!fold.processOpen) return undefined;
  const damage: EventDraft[] = [];
  try {
    const connected = await sandbox.recovered();
    const process = connected && (await attachProcess(deps, { ...row, spec: writer.spec }, fold, connected));
    if (process) return process;
  } catch (error) {
    mustBeDamage(context, error);
    // The report comes after the kill: a kill that fails is tried again, and would be reported again with each try.
    await (await sandbox.reachable())?.killAll();
    damage.push(damageEvent(context, "the agent's process cannot be found again", error));
  }
  await commitLoss(context, damage);
  return undefined;
}

/** Appends the damage, and the end of the open process, in one batch. Call it when nothing of the process runs. */
export async function commitLoss(context: SessionContext, damage: readonly EventDraft[]): Promise<void> {
  const { deps, writer, commit } = context;
  writer.redact = await readRedact(deps, writer.spec);
  const drafts = writer.drafts(damage);
  loseProcess(context, drafts);
  await commit(drafts);
}

/** Reports the open process as lost. */
export function loseProcess({ writer }: SessionContext, drafts: Drafts): void {
  const { fold, spec } = writer;
  if (!fold.processOpen) return;
  const lasting = spec.lasting === true;
  endProcess(fold, drafts, { process: fold.processes, reason: "lost" }, undefined, { lasting });
}

/** Throws the error again unless it is damage. A temporary failure and a failed append are no damage. */
export function mustBeDamage({ isClosed }: Pick<SessionContext, "isClosed">, error: unknown): void {
  if (isClosed() || mayPass(error)) throw error;
}

/**
 * Ends the running process of a session whose past is lost, because its state is unknown, and reports both. The commit
 * stores a new snapshot, so that the next opening does not report it again. It comes last: after a failure before it,
 * the next opening has to try again.
 */
async function endLostPast(context: SessionContext, sandbox: SessionSandbox): Promise<void> {
  const { row, fold } = context.writer;
  const damage: EventDraft[] = [];
  if (fold.sandbox === null) damage.push(...(await findAgain(context)));
  // The sandbox is known from its event on.
  const drafts = context.writer.drafts(damage);
  if (fold.processOpen) await (await sandbox.reachable())?.killAll();
  const why = `its events up to ${row.floor} were trimmed away, and no usable snapshot of them is left`;
  drafts.add(damageEvent(context, "a part of the session's past is lost", new Error(why)));
  loseProcess(context, drafts);
  await context.commit(drafts);
}

/** Finds a sandbox that the log does not name any more: it holds the user's files and the agent's memory. */
async function findAgain(context: SessionContext): Promise<EventDraft[]> {
  const { deps, writer } = context;
  const provider = deps.provider(writer.spec.sandbox ?? (await deps.defaultSandbox()));
  try {
    const found = (await provider.list?.())?.find(({ session }) => session === writer.row.id);
    if (!found) return [];
    const data = { sandbox_id: found.id, provider: provider.id, ...defined({ node: deps.lease.node }) };
    return [{ type: "sandbox.connected", source: "daemon", data }];
  } catch (error) {
    mustBeDamage(context, error);
    return [damageEvent(context, "the session's sandbox cannot be found again", error)];
  }
}

/** The report of damage, also for the operator. */
export function damageEvent(
  { deps, writer }: Pick<SessionContext, "deps" | "writer">,
  what: string,
  error: unknown,
): EventDraft {
  const message = `${what}: ${messageOf(error)}`;
  deps.logger({ level: "error", message, session: writer.row.id });
  return { type: "error", source: "daemon", data: { code: "internal", message } };
}
