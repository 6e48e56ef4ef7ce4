import { constants } from "node:os";
import { join } from "node:path";
import { setImmediate as immediate } from "node:timers/promises";
import type { EventData, EventDraft, Item, ProcessExit, SpoolLine, StderrOutput } from "../contract/index.ts";
import type { HarnessFact } from "../harness/port.ts";
import type { SpoolBatch } from "../spool/port.ts";
import { admitFact } from "./admit.ts";
import type { SessionContext } from "./context.ts";
import type { Drafts } from "./drafts.ts";
import { EarlierTexts, isToolItem } from "./earlierTexts.ts";
import { Echo } from "./echo.ts";
import { endProcess, type Stop } from "./ending.ts";
import { storeImages } from "./images.ts";
import { Observer } from "./observer.ts";
import type { HarnessProcess } from "./process.ts";
import { mustBeDamage, tellDamage } from "./recovery.ts";
import { waitingChange } from "./waiting.ts";

const GUARD_MS = 1_000;

export interface IntakeHooks {
  /** Why the process is being ended, if it is. */
  stop(): Stop | undefined;
  /** After every commit. */
  moved(endsTurn: boolean): Promise<void>;
  /** The end of the process is in the log. */
  ended(): Promise<void>;
  /** It writes more than it may. */
  tooMuch(): void;
}

/** What one process says, and what happens to its files meanwhile, on its way into the log. */
export class Intake {
  readonly #context: SessionContext;
  readonly #process: HarnessProcess;
  readonly #hooks: IntakeHooks;
  readonly #abort = new AbortController();
  #guard: NodeJS.Timeout | undefined;
  #observer: Observer | undefined;
  readonly #echo: Echo | undefined;
  readonly #earlier: EarlierTexts;
  #done: Promise<void> = Promise.resolve();
  /** The commit of the newest batch. */
  #committing: Promise<void> = Promise.resolve();

  constructor(context: SessionContext, process: HarnessProcess, hooks: IntakeHooks) {
    this.#context = context;
    this.#process = process;
    this.#hooks = hooks;
    this.#echo = context.writer.spec.echo === true ? new Echo(process, context) : undefined;
    this.#earlier = new EarlierTexts(process.sandbox, (text) => process.hide(text));
  }

  /** Settles when the process's last words are in the log, or this was detached. */
  get done(): Promise<void> {
    return this.#done;
  }

  async start(): Promise<void> {
    await this.#observe().catch((error: unknown) => {
      mustBeDamage(this.#context, error);
      return tellDamage(this.#context, "changes of files are not told from here on", error);
    });
    this.#guard = setInterval(() => this.#context.inBackground(this.#lookAtSize()), GUARD_MS);
    this.#guard.unref();
    this.#echo?.start();
    // Before its first turn an agent has written nothing.
    this.#context.inBackground(this.#earlier.readAhead(this.#turnStart() ?? Number.POSITIVE_INFINITY));
    this.#done = this.#follow().catch(this.#context.giveUp);
  }

  /** Stops looking, and ends nothing. */
  async detach(): Promise<void> {
    this.#abort.abort();
    clearInterval(this.#guard);
    this.#echo?.stop();
    await this.#observer?.stop();
  }

  /** How much the process has said that is not in the log yet. */
  async unread(): Promise<number> {
    return (await this.#process.spool.length()) - this.#process.offset;
  }

  /** Gives the rest of a killed process's output up: it may be gigabytes, and somebody waits for the end. */
  async abandon(): Promise<void> {
    const { writer, exclusive, commit } = this.#context;
    await this.detach();
    await this.#done;
    await exclusive(async () => {
      const unread = await this.unread();
      const message = `the last ${unread} bytes of the agent's output were not read when it was ended`;
      const drafts = writer.drafts([
        { type: "error", source: "daemon", data: { code: "too_large", message } },
      ]);
      this.#process.advance(this.#process.offset + unread);
      await this.#admitExit(drafts, (await this.#process.spool.exit()) ?? { signal: "SIGKILL" });
      await commit(drafts, { ingests: this.#process });
      await this.#hooks.ended();
    });
  }

  async #follow(): Promise<void> {
    const { exclusive, isClosed } = this.#context;
    for await (const batch of this.#process.follow(this.#abort.signal)) {
      if (isClosed() || this.#abort.signal.aborted) break;
      // Who detaches under the lock hears no more of it.
      await exclusive(async () => {
        if (!this.#abort.signal.aborted) await this.#ingest(batch);
      });
      // Between two batches everybody else gets the thread: sockets, other sessions, timers.
      await immediate();
    }
    await this.#committing;
  }

  /** Native lines become committed events: one batch, one transaction, the spool's offset in it. */
  async #ingest(batch: SpoolBatch): Promise<void> {
    const { writer } = this.#context;
    const process = this.#process;
    const drafts = writer.drafts();
    await this.#echo?.stdout(drafts, process.offset, batch.offset);
    await this.#echo?.stderr(drafts, { upTo: "line" });
    const { lines } = batch;
    for (let index = 0; index < lines.length; index++) {
      const line = process.clean(lines[index] as SpoolLine);
      const { facts, replies } = process.decode(line, lines[index + 1]?.at ?? batch.offset);
      if (facts.some(mayEndTurn)) await this.#drain(drafts, facts);
      for (const item of facts.flatMap(shownImages)) await storeImages(process.place, item);
      // Nothing is awaited for a line that says nothing of tools: a flood of words must not pay for it.
      this.#admit(drafts, line, facts.some(isToolItem) ? await this.#shown(facts) : facts);
      // Said before the commit, under an id that decoding again would give again: told exactly once.
      if (replies && replies.length > 0) await process.send(`reply:${line.at}`, replies);
    }
    process.advance(batch.offset);
    if (batch.exit) await this.#admitExit(drafts, batch.exit);
    await this.#commit(drafts, batch);
    if (drafts.endsTurn) this.#context.inBackground(this.#earlier.endTurn());
    if (drafts.endsTurn) this.#observer?.remember(writer.fold.head);
    if (batch.exit) {
      await this.detach();
      await this.#hooks.ended();
    }
    await this.#hooks.moved(drafts.endsTurn);
  }

  /** Nothing follows from mere words but more of them: while they are written, the next batch is decoded. */
  async #commit(drafts: Drafts, batch: SpoolBatch): Promise<void> {
    const before = this.#committing;
    const committing = this.#context.commit(drafts, { ingests: this.#process });
    this.#committing = committing;
    // Whoever comes next hears of a failure; until then nobody listens.
    committing.catch(() => {});
    await before;
    const isWords = !drafts.movesTurn && !batch.exit && !this.#process.owesCheckpoint;
    if (!isWords) await committing;
  }

  #shown(facts: readonly HarnessFact[]): Promise<readonly HarnessFact[]> {
    // Outside of a turn nobody knows since when the agent is at it.
    return this.#earlier.shownIn(facts, this.#turnStart() ?? 0);
  }

  #turnStart(): number | undefined {
    return this.#context.writer.fold.turn?.startedAt;
  }

  #admit(drafts: Drafts, line: SpoolLine, facts: readonly HarnessFact[]): void {
    if (facts.length === 0) return;
    const { fold, spec } = this.#context.writer;
    const options = { spec, bridges: this.#process.bridges, raw: rawOf(line, facts), line };
    for (const fact of facts) admitFact(fold, drafts, this.#judged(fact), options);
    // Asked after every line and not after every batch: how output is cut must not show in the log.
    const waiting = waitingChange(fold);
    if (waiting) drafts.add(waiting);
  }

  /** Agents see that a server does not let them in; why, only who stands between them may know. */
  #judged(fact: HarnessFact): HarnessFact {
    if (fact.type !== "error" || !fact.data.code?.startsWith("mcp_")) return fact;
    const { deps, writer } = this.#context;
    const { server } = (fact.data.details ?? {}) as { server?: unknown };
    const verdict = typeof server === "string" ? deps.mcpVerdict(writer.row.id, server) : undefined;
    const code = verdict && `mcp_${verdict === "refused" ? "authentication" : "connection"}_failed`;
    if (code === undefined || code === fact.data.code) return fact;
    const what = verdict === "refused" ? "refuses the credential that it was shown" : "cannot be reached";
    return { ...fact, data: { ...fact.data, code, message: `The MCP server ${String(server)} ${what}.` } };
  }

  async #admitExit(drafts: Drafts, exit: ProcessExit): Promise<void> {
    const process = this.#process;
    const at = process.offset;
    const line: SpoolLine = { dir: "exit", text: JSON.stringify(exit), at, exit };
    await this.#drain(drafts, "exit");
    this.#admit(drafts, line, process.decode(line, at).facts);
    const stderr = this.#hideStderr(await process.spool.stderr(process.redactor));
    const code =
      exit.code ?? (exit.signal === undefined ? undefined : 128 + signals[exit.signal as NodeJS.Signals]);
    const stop = this.#hooks.stop();
    const ended: EventData<"process.ended"> = {
      process: process.ordinal,
      reason: stop !== undefined ? "stopped" : exit.lost === true ? "lost" : "exited",
      ...(code === undefined ? {} : { exit_code: code }),
      ...(exit.signal === undefined ? {} : { signal: exit.signal }),
      ...(stderr.total_lines ? { stderr } : {}),
    };
    // A limit of the sandbox may have ended it; only the sandbox knows.
    const verdict = stop === undefined && code !== 0 ? await process.sandbox.verdict?.() : undefined;
    const { fold, spec } = this.#context.writer;
    endProcess(fold, drafts, ended, stop, { verdict, lasting: spec.lasting === true });
  }

  /** What has to be said before a turn may end: the files' last changes, what they come to, and where they are kept. */
  async #drain(drafts: Drafts, facts: readonly HarnessFact[] | "exit"): Promise<void> {
    const { writer, keeper, deps } = this.#context;
    await this.#echo?.stderr(drafts, { upTo: facts === "exit" ? "process" : "turn" });
    if (!writer.fold.turn) return;
    const changes = (await this.#observer?.drain()) ?? [];
    this.#context.inBackground(this.#earlier.changed(changes, { inTurn: true }));
    drafts.addAll(changes.map((event) => this.#hide(event)));
    const isDone =
      facts !== "exit" &&
      facts.some((fact) => fact.type === "turn.ended" && fact.data.status === "completed");
    if (!isDone || writer.spec.autoCheckpoint !== true) return;
    const comment = writer.fold.turn.options?.checkpointComment;
    const kept = await keeper.keep(this.#process.sandbox, comment).catch((error: unknown) => {
      deps.logger({
        level: "warn",
        message: "no checkpoint was made",
        session: writer.row.id,
        error: String(error),
      });
      return undefined;
    });
    if (kept) drafts.add(kept.event);
  }

  /** An agent may have written a secret that it was given into a file. */
  #hide(event: EventDraft): EventDraft {
    if (event.type !== "workspace.diffed") return event;
    return { ...event, data: { ...event.data, diff: this.#process.hide(event.data.diff) } };
  }

  #hideStderr({ head, tail, ...rest }: StderrOutput): StderrOutput {
    return {
      ...(head === undefined ? {} : { head: this.#process.hide(head) }),
      ...(tail === undefined ? {} : { tail: this.#process.hide(tail) }),
      ...rest,
    };
  }

  /** Watches the workspace for as long as the process lives, and tells of it as it happens. */
  async #observe(): Promise<void> {
    const { deps, writer, exclusive, commit, inBackground } = this.#context;
    const { folders, paths, isolated, owner } = this.#process.sandbox;
    const { row, fold } = writer;
    if (!folders || row.spec.watch === false) return;
    const observer = await Observer.start(
      {
        log: deps.log,
        session: row.id,
        folder: folders.workspace,
        name: paths.workspace,
        isolated,
        owner,
        hooks: deps.fileHooks,
        memoFile: join(deps.spoolRoot, row.id, "files.json"),
        logger: deps.logger,
      },
      fold.head,
    );
    this.#observer = observer;
    const tell = (): Promise<void> =>
      exclusive(async () => {
        const changes = observer.take();
        inBackground(this.#earlier.changed(changes, { inTurn: this.#turnStart() !== undefined }));
        await commit(writer.drafts(changes));
        observer.rememberIfSmall(writer.fold.head);
      });
    inBackground(observer.follow(tell));
  }

  async #lookAtSize(): Promise<void> {
    const { maxOutputBytes } = this.#context.deps.limits;
    const { spool } = this.#process;
    if (this.#abort.signal.aborted) return;
    const [length, size] = await Promise.all([spool.length(), spool.size()]);
    if (Math.max(length, size) > maxOutputBytes) this.#hooks.tooMuch();
  }
}

const { signals } = constants;

function mayEndTurn(fact: HarnessFact): boolean {
  return fact.type === "turn.ended" || fact.type === "model.failed";
}

/** A native line is JSON text as it is; what is not JSON becomes a JSON string. */
function shownImages(fact: HarnessFact): Item[] {
  if (fact.type !== "item.completed") return [];
  return fact.data.item.content.some(({ type }) => type === "image") ? [fact.data.item] : [];
}

function rawOf(line: SpoolLine, facts: readonly { type: EventDraft["type"] | "model.failed" }[]): string {
  const isJson =
    line.text.startsWith("{") && !line.damage && facts.every((fact) => fact.type !== "agent.unparsed");
  return isJson ? line.text : JSON.stringify(line.text);
}
