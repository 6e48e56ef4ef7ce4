import { setImmediate as immediate } from "node:timers/promises";
import type {
  EventData,
  EventDraft,
  Item,
  ProcessExit,
  SpoolLine,
  StderrOutput,
} from "../../contract/index.ts";
import type { HarnessFact } from "../../harness/port.ts";
import { exitCodeOf, isShortened, type SpoolBatch } from "../../spool/index.ts";
import { admitFact } from "../turn/rules.ts";
import type { SessionContext } from "../context.ts";
import type { Drafts } from "../fold/drafts.ts";
import { toRawString } from "../fold/long-texts.ts";
import { Echo } from "./raw-output.ts";
import { endProcess, type Stop } from "./ending.ts";
import { storeImages } from "../inbox/images.ts";
import { FileEvents } from "../sandbox/file-events.ts";
import { ModelRecords } from "./model-records.ts";
import type { HarnessProcess } from "./process.ts";
import { damageEvent } from "./recovery.ts";
import { waitingChange } from "../fold/waiting.ts";

const GUARD_MS = 1_000;

export interface IntakeHooks {
  /** The reason of the stop that is under way, if there is one. */
  stop(): Stop | undefined;
  /** Called after every commit. */
  moved(endsTurn: boolean): Promise<void>;
  /** Called when the end of the process is in the log. */
  ended(): Promise<void>;
  /** Called when the process has written more than it may. */
  tooMuch(): void;
}

/** Turns the output of one process, and the changes of its files, into committed events. */
export class Intake {
  readonly #context: SessionContext;
  readonly #process: HarnessProcess;
  readonly #hooks: IntakeHooks;
  readonly #abort = new AbortController();
  #guard: NodeJS.Timeout | undefined;
  readonly #echo: Echo | undefined;
  readonly #files: FileEvents;
  /** Set if the gateway leads the agent. */
  readonly #records: ModelRecords | undefined;
  #done: Promise<void> = Promise.resolve();
  /** The commit of the newest batch. */
  #committing: Promise<void> = Promise.resolve();

  constructor(context: SessionContext, process: HarnessProcess, hooks: IntakeHooks) {
    this.#context = context;
    this.#process = process;
    this.#hooks = hooks;
    this.#echo = context.writer.spec.echo === true ? new Echo(process, context) : undefined;
    this.#files = new FileEvents(context, process);
    const gateway = context.writer.fold.led ? process.sandbox.gateway : undefined;
    this.#records = gateway && new ModelRecords(context, gateway.records, (agent) => process.parentOf(agent));
  }

  /** Settles when the last output of the process is in the log, or the intake is detached. */
  get done(): Promise<void> {
    return this.#done;
  }

  async start(): Promise<void> {
    await this.#files.start();
    this.#guard = setInterval(() => this.#context.inBackground(this.#lookAtSize()), GUARD_MS);
    this.#guard.unref();
    this.#echo?.start();
    await this.#records?.start();
    this.#done = this.#follow()
      .catch((error: unknown) => this.#lose(error))
      .catch(this.#context.giveUp);
  }

  /** Stops reading. The process runs on. */
  async detach(): Promise<void> {
    this.#abort.abort();
    clearInterval(this.#guard);
    this.#echo?.stop();
    this.#records?.stop();
    await this.#files.stop();
  }

  /** The bytes of output that are not in the log yet. */
  async unread(): Promise<number> {
    return (await this.#process.spool.length()) - this.#process.offset;
  }

  /** Skips the rest of a killed process's output: it may be gigabytes, and a client waits for the end. */
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
      // `detach` may have run while this waited for the lock: then no events may follow.
      await exclusive(async () => {
        if (!this.#abort.signal.aborted) await this.#ingest(batch);
      });
      // Other work of this thread runs between two batches.
      await immediate();
    }
    await this.#committing;
  }

  /** Ends a process whose output was shortened: its rest has no meaning without the missing part. */
  async #lose(error: unknown): Promise<void> {
    if (!isShortened(error)) throw error;
    const { writer, exclusive, commit } = this.#context;
    const { sandbox } = this.#process;
    await this.#committing;
    await exclusive(async () => {
      if (this.#abort.signal.aborted) return;
      await this.detach();
      // The end of the process kills all others too, unless a client's command runs beside it.
      await sandbox.processes.signal(this.#process.name, "SIGKILL");
      const damage = damageEvent(this.#context, "the agent's output cannot be read any more", error);
      const drafts = writer.drafts([damage]);
      await this.#admitExit(drafts, { lost: true });
      await commit(drafts, { ingests: this.#process });
      await this.#hooks.ended();
      await this.#hooks.moved(drafts.endsTurn);
    });
  }

  /** Commits a batch of native lines as events, in a transaction with the spool's offset. */
  async #ingest(batch: SpoolBatch): Promise<void> {
    const { writer } = this.#context;
    const process = this.#process;
    let drafts = writer.drafts();
    this.#records?.add(drafts);
    await this.#echo?.stdout(drafts, process.offset, batch.offset);
    await this.#echo?.stderr(drafts, { upTo: "line" });
    const { lines } = batch;
    for (let index = 0; index < lines.length; index++) {
      const line = process.clean(lines[index] as SpoolLine);
      const { facts, replies } = process.decode(line);
      if (facts.some(mayEndTurn)) {
        drafts = await this.#commitBeforeEnd(drafts);
        await this.#drain(drafts, facts);
      }
      for (const item of facts.flatMap(shownImages)) await storeImages(process.imageStore, item);
      const shown = this.#files.withDiffs(facts);
      this.#admit(drafts, line, shown instanceof Promise ? await shown : shown);
      process.advance(lines[index + 1]?.at ?? batch.offset);
      // A reply precedes the commit. Decoding again gives it the same id, so it is sent exactly once.
      if (replies && replies.length > 0) await process.send(`reply:${line.at}`, replies);
    }
    process.advance(batch.offset);
    if (batch.exit) await this.#admitExit(drafts, batch.exit);
    await this.#commit(drafts, batch);
    if (drafts.endsTurn) this.#files.turnEnded();
    if (batch.exit) {
      await this.detach();
      await this.#hooks.ended();
    }
    await this.#hooks.moved(drafts.endsTurn);
  }

  /** Commits a batch. While a batch of message text is written, the next batch is decoded. */
  async #commit(drafts: Drafts, { exit }: Pick<SpoolBatch, "exit"> = {}): Promise<void> {
    const before = this.#committing;
    const committing = this.#context.commit(drafts, { ingests: this.#process });
    this.#committing = committing;
    // The next call reports a failure; until then there is no handler.
    committing.catch(() => {});
    await before;
    const isOnlyText = !drafts.movesTurn && !exit && !this.#process.owesState;
    if (!isOnlyText) await committing;
  }

  /**
   * Commits the lines before the one that ends the turn, so that their readers do not wait for the survey of the files.
   * That commit stores the offset of the ending line. It is skipped if the echo, the decoder's state or undelivered
   * input belongs into one commit with the ending line.
   */
  async #commitBeforeEnd(drafts: Drafts): Promise<Drafts> {
    const { writer } = this.#context;
    const process = this.#process;
    const isOwed = writer.fold.turn?.outbox.some(({ id }) => !process.wasSent(id)) === true;
    if (drafts.events.length === 0 || isOwed || this.#echo || process.owesState) return drafts;
    await this.#commit(drafts);
    return writer.drafts();
  }

  #admit(drafts: Drafts, line: SpoolLine, facts: readonly HarnessFact[]): void {
    if (facts.length === 0) return;
    const { fold, spec } = this.#context.writer;
    const options = { spec, bridges: this.#process.bridges, raw: rawOf(line, facts), line };
    // The gateway's records replace these facts.
    const told = this.#records === undefined ? facts : facts.filter(({ type }) => !MEASURED.has(type));
    for (const fact of told) admitFact(fold, drafts, this.#withMcpVerdict(fact), options);
    // Checked for every line: the log is the same however the output is cut into batches.
    const waiting = waitingChange(fold);
    if (waiting) drafts.add(waiting);
  }

  /** Corrects an agent's report of a failed MCP server: the proxy between them may know the reason. */
  #withMcpVerdict(fact: HarnessFact): HarnessFact {
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
    this.#admit(drafts, line, process.decode(line).facts);
    const stderr = this.#hideStderr(await process.spool.stderr(process.redactor));
    const code = exitCodeOf(exit);
    const stop = this.#hooks.stop();
    this.#context.deps.desk.forget(this.#context.writer.row);
    const ended: EventData<"process.ended"> = {
      process: process.ordinal,
      reason: stop !== undefined ? "stopped" : exit.lost === true ? "lost" : "exited",
      ...(code === undefined ? {} : { exit_code: code }),
      ...(exit.signal === undefined ? {} : { signal: exit.signal }),
      ...(stderr.total_lines ? { stderr } : {}),
    };
    // A limit of the sandbox may have ended the process.
    const verdict = stop === undefined && code !== 0 ? await process.sandbox.verdict?.() : undefined;
    const { fold, spec } = this.#context.writer;
    endProcess(fold, drafts, ended, stop, { verdict, lasting: spec.lasting === true });
  }

  /** Adds the output and the file events that have to precede the end of a turn. */
  async #drain(drafts: Drafts, facts: readonly HarnessFact[] | "exit"): Promise<void> {
    await this.#echo?.stderr(drafts, { upTo: facts === "exit" ? "process" : "turn" });
    const isCompleted = facts !== "exit" && facts.some(isCompletion);
    if (isCompleted) this.#records?.add(drafts);
    else await this.#records?.settle(drafts);
    await this.#files.endTurn(drafts, { isCompleted });
  }

  #hideStderr({ head, tail, ...rest }: StderrOutput): StderrOutput {
    return {
      ...(head === undefined ? {} : { head: this.#process.hide(head) }),
      ...(tail === undefined ? {} : { tail: this.#process.hide(tail) }),
      ...rest,
    };
  }

  async #lookAtSize(): Promise<void> {
    const { maxOutputBytes } = this.#context.deps.limits;
    const { spool } = this.#process;
    if (this.#abort.signal.aborted) return;
    const [length, size] = await Promise.all([spool.length(), spool.size()]);
    if (Math.max(length, size) > maxOutputBytes) this.#hooks.tooMuch();
  }
}

/** The reports of an agent that the gateway's records replace. */
const MEASURED = new Set<string>(["model.started", "model.ended"]);

function mayEndTurn(fact: HarnessFact): boolean {
  return fact.type === "turn.ended" || fact.type === "model.failed";
}

function isCompletion(fact: HarnessFact): boolean {
  return fact.type === "turn.ended" && fact.data.status === "completed";
}

function shownImages(fact: HarnessFact): Item[] {
  if (fact.type !== "item.completed") return [];
  return fact.data.item.content.some(({ type }) => type === "image") ? [fact.data.item] : [];
}

/** The native line where it is JSON; every other line as a JSON string. */
function rawOf(line: SpoolLine, facts: readonly { type: EventDraft["type"] | "model.failed" }[]): string {
  const isJson =
    line.text.startsWith("{") && !line.damage && facts.every((fact) => fact.type !== "agent.unparsed");
  return isJson ? line.text : toRawString(line.text);
}
