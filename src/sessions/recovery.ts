import type { EventDraft } from "../contract/index.ts";
import { attachProcess } from "./boot.ts";
import type { SessionContext } from "./context.ts";
import { mayPass, messageOf } from "./damage.ts";
import type { Drafts } from "./drafts.ts";
import { endProcess } from "./ending.ts";
import { isPastLost } from "./load.ts";
import type { HarnessProcess } from "./process.ts";
import type { SessionSandbox } from "./sessionSandbox.ts";

/** The process that an earlier life left open. Undefined where it cannot be found again; then its loss is in the log. */
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
  const drafts = writer.drafts();
  loseProcess(context, drafts);
  await context.commit(drafts);
  return undefined;
}

/** What runs according to the log and is followed by nobody is called lost. */
export function loseProcess({ writer }: SessionContext, drafts: Drafts): void {
  const { fold, spec } = writer;
  if (!fold.processOpen) return;
  const lasting = spec.lasting === true;
  endProcess(fold, drafts, { process: fold.processes, reason: "lost" }, undefined, { lasting });
}

/** Fails with every error that is no damage: one that may pass, and that of an append. */
export function mustBeDamage({ isClosed }: Pick<SessionContext, "isClosed">, error: unknown): void {
  if (isClosed() || mayPass(error)) throw error;
}

/** Told once: the event is where the next snapshot stands. What runs is in the middle of something that nobody knows. */
async function tellLostPast(context: SessionContext, sandbox: SessionSandbox): Promise<void> {
  const { row, fold } = context.writer;
  const why = `its events up to ${row.floor} were trimmed away, and no usable snapshot of them is left`;
  await tellDamage(context, "a part of what the session was is lost", new Error(why));
  if (fold.sandbox === null) await findAgain(context);
  if (fold.processOpen) await (await sandbox.reachable())?.killAll();
}

/** The sandbox that the log does not name any more: the user's files and the agent's memory are in it. */
async function findAgain({ deps, writer, commit }: SessionContext): Promise<void> {
  const provider = deps.provider(writer.spec.sandbox ?? (await deps.defaultSandbox()));
  const found = (await provider.list?.())?.find(({ session }) => session === writer.row.id);
  if (!found) return;
  const data = { sandbox_id: found.id, provider: provider.id };
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
