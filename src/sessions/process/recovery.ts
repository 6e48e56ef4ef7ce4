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
  const lost = isPastLost(row);
  if (lost) await tellLostPast(context, sandbox);
  if (!fold.processOpen) return undefined;
  try {
    const connected = lost ? undefined : await sandbox.recovered();
    const process = connected && (await attachProcess(deps, { ...row, spec: writer.spec }, fold, connected));
    if (process) return process;
  } catch (error) {
    mustBeDamage(context, error);
    await tellDamage(context, "the agent's process cannot be found again", error);
    await (await sandbox.reachable())?.killAll();
  }
  writer.redact = await readRedact(deps, writer.spec);
  const drafts = writer.drafts();
  loseProcess(context, drafts);
  await context.commit(drafts);
  return undefined;
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
 * Reports that the session's past is lost. The event takes a new snapshot, so it is reported only once. The running
 * process is ended, because its state is unknown.
 */
async function tellLostPast(context: SessionContext, sandbox: SessionSandbox): Promise<void> {
  const { row, fold } = context.writer;
  const why = `its events up to ${row.floor} were trimmed away, and no usable snapshot of them is left`;
  await tellDamage(context, "a part of the session's past is lost", new Error(why));
  if (fold.sandbox === null) await findAgain(context);
  if (fold.processOpen) await (await sandbox.reachable())?.killAll();
}

/** Finds a sandbox that the log does not name any more: it holds the user's files and the agent's memory. */
async function findAgain({ deps, writer, commit }: SessionContext): Promise<void> {
  const provider = deps.provider(writer.spec.sandbox ?? (await deps.defaultSandbox()));
  const found = (await provider.list?.())?.find(({ session }) => session === writer.row.id);
  if (!found) return;
  const data = { sandbox_id: found.id, provider: provider.id, ...defined({ node: deps.lease.node }) };
  await commit(writer.drafts([{ type: "sandbox.connected", source: "daemon", data }]));
}

export async function tellDamage(
  { deps, writer, commit }: SessionContext,
  what: string,
  error: unknown,
): Promise<void> {
  const message = `${what}: ${messageOf(error)}`;
  deps.logger({ level: "error", message, session: writer.row.id });
  const told: EventDraft = { type: "error", source: "daemon", data: { code: "internal", message } };
  await commit(writer.drafts([told]));
}
