import { rm } from "node:fs/promises";
import { join } from "node:path";
import { defined } from "../../contract/own-keys.ts";
import {
  createId,
  SluiceError,
  type EventData,
  type EventDraft,
  type SessionSpec,
} from "../../contract/index.ts";
import type { Harness } from "../../harness/port.ts";
import type { Sandbox, SandboxProvider } from "../../sandbox/port.ts";
import type { SessionContext } from "../context.ts";
import type { SessionDeps } from "../deps.ts";
import { messageOf } from "../failure.ts";
import { withSettings } from "../fold/info.ts";
import { opening } from "../fold/writer.ts";
import { type KeyedRequest, type KeyOptions, recallAnswer, rememberAnswer } from "../inbox/idempotency.ts";
import type { Runner } from "../process/runner.ts";
import { refuseEnded, refuseTurn } from "../refusals.ts";
import { refuseSpec } from "../spec.ts";
import { fileMemo } from "./file-events.ts";
import type { KnownSandbox } from "./sandbox-fold.ts";
import { makeSandbox, type SessionSandbox, shortcomingsOf, toSandboxData } from "./session-sandbox.ts";

interface MoveParts {
  readonly sandbox: SessionSandbox;
  readonly runner: Runner;
  /** Ends an idle agent's process. */
  sleep(): Promise<void>;
}

/**
 * Moves an idle session to a sandbox of another provider (docs/decisions/0116). Until the last commit the session stays
 * in its old sandbox, whatever fails.
 */
export class Move {
  readonly #context: SessionContext;
  readonly #parts: MoveParts;

  constructor(context: SessionContext, parts: MoveParts) {
    this.#context = context;
    this.#parts = parts;
  }

  async to(name: string, { key }: KeyOptions = {}): Promise<void> {
    const { deps, writer } = this.#context;
    const request = { key, kind: "move", body: name };
    if (await this.#isKnown(request)) return;
    this.#refuse();
    const provider = deps.provider(name);
    if (writer.fold.sandbox?.provider === provider.id) return;
    const settings = toSettings(provider, writer.spec);
    const spec = withSettings(writer.spec, settings);
    await refuseSpec(spec, deps.harness(spec), provider).catch((error: unknown) => {
      throw withAdvice(error, { session: writer.row.id, name });
    });
    await this.#parts.sleep();
    await this.#parts.sandbox.settled();
    const target = { provider, settings };
    const begun = await this.#begin(target, request);
    if (!begun) return;
    await this.#finish(target, begun, request);
    await this.#removeOld(begun.old);
  }

  /** The checkpoint and the mark of the move. Undefined where there is nothing to move. */
  #begin({ provider, settings }: Target, request: KeyedRequest): Promise<Begun | undefined> {
    const { deps, writer, checkpointer, exclusive, commit } = this.#context;
    return exclusive(async () => {
      if (await this.#isKnown(request)) return undefined;
      this.#refuse();
      if (this.#parts.sandbox.isMaking)
        throw new SluiceError("session_busy", "the sandbox is being made; move the session in a moment");
      const old = await this.#parts.sandbox.connected();
      if (!old) {
        await commit(writer.drafts(this.#withoutFiles(settings)), rememberAnswer(request, {}));
        return undefined;
      }
      const { info, event } = await checkpointer.create(old, `before the move to ${provider.id}`);
      const data = {
        sandbox_id: createId("sandbox"),
        provider: provider.id,
        ...defined({ node: deps.lease.node }),
      };
      await commit(writer.drafts([event, { type: "sandbox.moving", source: "daemon", data }]));
      return { old, checkpoint: info.id, data };
    });
  }

  /** The lock is free meanwhile: messages are accepted, and wait. */
  async #finish({ provider, settings }: Target, begun: Begun, request: KeyedRequest): Promise<void> {
    const { deps, writer, checkpointer, exclusive, commit, isClosed } = this.#context;
    const { data, checkpoint } = begun;
    const { row, epoch, spec } = writer;
    try {
      const made = await makeSandbox(
        deps,
        { row, epoch, spec: withSettings(spec, settings) },
        { provider, id: data.sandbox_id },
      );
      const { events } = await checkpointer.restore(made, checkpoint);
      await renameMemory(deps.harness(spec), begun.old, made);
      await exclusive(async () => {
        refuseEnded(writer.row.id, writer.fold, this.#parts.runner);
        // The next watch begins with the files as they are in the new sandbox.
        await rm(fileMemo(deps, writer.row.id), { force: true });
        const message = shortcomingsOf(made);
        const connected = { ...data, isolated: made.isolated, ...defined({ message }) };
        const drafts = writer.drafts([
          toUpdate(settings),
          { type: "sandbox.connected", source: "daemon", data: connected },
          ...events,
        ]);
        await commit(drafts, rememberAnswer(request, {}));
        this.#parts.sandbox.replace(made);
      });
    } catch (error) {
      // Where an append failed, only the log knows where the session is: it is opened again from there.
      if (!isClosed()) await this.#undo(begun, error);
      throw error;
    }
  }

  async #undo({ data }: Begun, error: unknown): Promise<void> {
    const { deps, exclusive } = this.#context;
    const why = `the move to ${data.provider} failed: ${messageOf(error)}`;
    await exclusive(() => stay(this.#context, why));
    await removeSandbox(deps, { id: data.sandbox_id, provider: data.provider });
    this.#parts.runner.advance();
  }

  async #removeOld(old: Sandbox): Promise<void> {
    const { deps, writer } = this.#context;
    this.#parts.runner.advance();
    await old.destroy().catch((error: unknown) => {
      const message = "the sandbox that a session left could not be removed; it is tried again";
      const ids = { session: writer.row.id, ...toSandboxData(old) };
      deps.logger({ level: "warn", message, ...ids, error: messageOf(error) });
    });
  }

  #withoutFiles(settings: Settings): EventDraft[] {
    const { sandbox } = this.#context.writer.fold;
    const gone = sandbox && { sandbox_id: sandbox.id, provider: sandbox.provider };
    return [
      ...opening(this.#context.writer),
      toUpdate(settings),
      ...(gone ? [{ type: "sandbox.killed", source: "daemon", data: gone } as const] : []),
    ];
  }

  #refuse(): void {
    const { writer } = this.#context;
    refuseEnded(writer.row.id, writer.fold, this.#parts.runner);
    refuseTurn("be moved", writer.fold, this.#parts.runner);
    if (writer.fold.paused) throw new SluiceError("session_busy", "the sandbox is paused; resume it first");
  }

  async #isKnown(request: KeyedRequest): Promise<boolean> {
    const { deps, writer } = this.#context;
    return (await recallAnswer<object>(deps.log, writer.row.id, request)) !== undefined;
  }
}

interface Settings {
  readonly sandbox: string;
  readonly directory?: null;
}

interface Target {
  readonly provider: SandboxProvider;
  readonly settings: Settings;
}

interface Begun {
  readonly old: Sandbox;
  readonly checkpoint: string;
  readonly data: EventData<"sandbox.moving">;
}

/** Ends the move of a server that crashed: the session stays where it was. Call it under the lock. */
export async function abandonMove(context: SessionContext): Promise<void> {
  const { deps, writer } = context;
  const { moving } = writer.fold;
  if (!moving) return;
  await stay(context, `the move to ${moving.provider} was interrupted; move the session again`);
  void removeSandbox(deps, moving);
}

async function stay({ writer, commit }: SessionContext, message: string): Promise<void> {
  const { sandbox, moving } = writer.fold;
  if (!moving || !sandbox) return;
  const { id: sandbox_id, provider, node } = sandbox;
  const data = { sandbox_id, provider, message, ...defined({ node }) };
  await commit(writer.drafts([{ type: "sandbox.connected", source: "daemon", data }]));
}

/** Removes a sandbox that no session uses. After a failure the upkeep tries it again. */
async function removeSandbox(deps: SessionDeps, { id, provider }: KnownSandbox): Promise<void> {
  try {
    await (await deps.provider(provider).connect(id))?.destroy();
  } catch (error) {
    const message = "an incomplete sandbox could not be removed; it is tried again";
    deps.logger({ level: "warn", message, sandbox: id, provider, error: messageOf(error) });
  }
}

/** A folder of this machine stays here, and another machine gets a copy of its files. */
function toSettings({ id, hasPrograms }: SandboxProvider, { directory }: SessionSpec): Settings {
  return { sandbox: id, ...(hasPrograms && directory !== undefined ? { directory: null } : {}) };
}

/** An agent may find its memory by the path of its workspace, which is another one now. */
async function renameMemory(harness: Harness, { paths: before }: Sandbox, made: Sandbox): Promise<void> {
  const { paths, files } = made;
  const later = harness.memoryFolders?.(paths.workspace) ?? [];
  for (const [at, folder] of (harness.memoryFolders?.(before.workspace) ?? []).entries()) {
    const wanted = later[at];
    if (wanted === undefined || wanted === folder) continue;
    await files.move(join(paths.home, folder), join(paths.home, wanted)).catch((error: unknown) => {
      // An agent that has not spoken yet has no memory.
      if (!(error instanceof SluiceError) || error.code !== "file_not_found") throw error;
    });
  }
}

function toUpdate(settings: Settings): EventDraft {
  return { type: "session.updated", source: "daemon", data: { settings: { ...settings } } };
}

/** A move keeps all other settings. A copy can have others. */
function withAdvice(error: unknown, { session, name }: { session: string; name: string }): unknown {
  if (!(error instanceof SluiceError) || error.code !== "capability_missing") return error;
  const detail = `${error.message} A move keeps these settings; a fork can have others: sluice run --fork ${session} --sandbox ${name} "…"`;
  return new SluiceError(error.code, detail, error.facts, { cause: error });
}
