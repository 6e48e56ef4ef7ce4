import { setTimeout as sleep } from "node:timers/promises";
import { defined } from "../../contract/own-keys.ts";
import { own, SluiceError, toToolServerName, type EventDraft } from "../../contract/index.ts";
import type { CustomTool, ToolAnswer, ToolCall, ToolRun } from "../../tools/index.ts";
import {
  toRequestId,
  toolServerRule,
  offeredTools,
  findOpenCall,
  isRunByApplication,
  toCancelled,
  toPermissionId,
} from "./tool-requests.ts";
import { reopening } from "../refusals.ts";
import type { SessionContext } from "../context.ts";
import type { Drafts } from "../fold/drafts.ts";
import { inlineContent } from "../inbox/images.ts";
import { policyAnswer } from "./policy.ts";
import type { Runner } from "../process/runner.ts";
import { findAllowed } from "../fold/turn-fold.ts";

/** How many times a call looks for its item: some agents print the item only after the call has arrived. */
const LOOKS = 200;
const LOOK_MS = 5;

/** The delay of a cancelled call's result: the agent has to get the interrupt first. */
const CANCEL_DELAY_MS = 500;

/** Wakes a waiting call. The decision itself is read from the log. */
const DECIDED: ToolAnswer = { content: [], status: "completed" };

type Settle = (answer: ToolAnswer | SluiceError) => void;

/** The calls of the application's tools that an agent makes through the tool server. */
export class ToolCalls {
  readonly #context: SessionContext;
  readonly #runner: Runner;
  readonly #waiting = new Map<string, Set<Settle>>();

  constructor(context: SessionContext, runner: Runner) {
    this.#context = context;
    this.#runner = runner;
  }

  async list(run: ToolRun): Promise<readonly CustomTool[]> {
    this.#demandRunning(run);
    return this.#offered;
  }

  /** Waits for the answer to the call. A repeated call gets the answer of the first; a new call becomes a request. */
  async call(
    run: ToolRun,
    call: ToolCall,
    { signal }: { signal: AbortSignal },
  ): Promise<ToolAnswer | undefined> {
    const { writer, exclusive, commit } = this.#context;
    const id = toRequestId(run, call.id);
    const clean = { ...call, input: this.#clean(call.input) };
    await this.#catchUp(id, clean, signal);
    const refused = await this.#awaitPermission(run, id, clean, signal);
    if (refused !== "granted") return refused;
    // The promise is wrapped in an object: the lock must not be held until the answer arrives.
    const { answer } = await exclusive(async () => {
      this.#demandRunning(run);
      const isPending = writer.fold.turn?.pending.some((pending) => pending.id === id) ?? false;
      const known = isPending ? undefined : (this.#answered(id) ?? this.#refusal(call));
      if (known) return { answer: Promise.resolve(known) };
      // The tool server has hung up: it repeats the call, or has cancelled it.
      if (!isPending && signal.aborted) return { answer: Promise.resolve(undefined) };
      const answer = this.#wait(id, signal);
      if (!isPending) await commit(writer.drafts([this.#request(id, clean)]));
      return { answer };
    });
    const answered = await answer;
    const files = this.#runner.process?.sandbox.files;
    if (!answered || !files) return answered;
    return { ...answered, content: await inlineContent(files, answered.content) };
  }

  /** Cancels the open requests of a call that the agent has cancelled. */
  async cancel(run: ToolRun, callId: string): Promise<void> {
    const { writer, exclusive, commit } = this.#context;
    const id = toRequestId(run, callId);
    await exclusive(async () => {
      this.#demandRunning(run);
      const ids = new Set([id, toPermissionId(id)]);
      const open = writer.fold.turn?.pending.filter((pending) => ids.has(pending.id)) ?? [];
      if (open.length > 0) await commit(writer.drafts(open.map((pending) => toCancelled(pending, "agent"))));
    });
  }

  /** Answers the waiting calls that these committed events resolve. */
  settle(events: readonly EventDraft[]): void {
    if (this.#waiting.size === 0) return;
    for (const event of events) {
      if (event.type === "permission.resolved") this.#answer(event.data.permission_id, DECIDED);
      if (event.type !== "tool.resolved") continue;
      const { request_id: id, content, status } = event.data;
      const answer = (): void => this.#answer(id, { content, status });
      if (status === "cancelled") setTimeout(answer, CANCEL_DELAY_MS).unref();
      else answer();
    }
  }

  /** Fails the waiting calls of a closed session. The tool server repeats them. */
  close(): void {
    for (const id of this.#waiting.keys()) this.#answer(id, reopening());
  }

  /**
   * Asks for the permission that the session's rules demand, unless the agent itself has asked for this call. Not every
   * agent asks, and other programs in the sandbox may call a tool.
   */
  async #awaitPermission(
    run: ToolRun,
    requestId: string,
    call: ToolCall,
    signal: AbortSignal,
  ): Promise<"granted" | ToolAnswer | undefined> {
    const { writer, exclusive, commit } = this.#context;
    const id = toPermissionId(requestId);
    const { decided } = await exclusive(async () => {
      this.#demandRunning(run);
      const { fold, spec } = writer;
      const isKnown = fold.turn?.pending.some((pending) => pending.id === requestId) ?? false;
      if (isKnown || this.#answered(requestId) || this.#refusal(call)) return {};
      if (toolServerRule(spec.tools, call.name) !== "ask" || !fold.turn) return {};
      const callId = findOpenCall(fold.turn, call.name, call.input);
      if (findAllowed(fold.turn, call.name, callId) || this.#decision(id)) return {};
      if (signal.aborted) return { decided: Promise.resolve(undefined) };
      const decided = this.#wait(id, signal);
      if (!fold.turn.pending.some((pending) => pending.id === id)) {
        await commit(this.#askDrafts(id, call, callId));
      }
      return { decided };
    });
    if (decided && (await decided) === undefined) return undefined;
    const decision = this.#decision(id);
    if (decision === undefined || decision === "approved") return "granted";
    return failure(`"${call.name}" was not called: it was not permitted.`);
  }

  #decision(id: string): string | undefined {
    return this.#context.writer.fold.answered.find((answer) => answer.id === id)?.answer;
  }

  /** The permission request, and the answer of an unattended session's policy. */
  #askDrafts(id: string, { name, input }: ToolCall, callId: string | undefined): Drafts {
    const { writer } = this.#context;
    const metadata = { input, ...defined({ call_id: callId }) };
    const action = toToolServerName(name);
    const data = { permission_id: id, action, status: "requested", metadata } as const;
    const drafts = writer.drafts([{ type: "permission.requested", source: "daemon", data }]);
    const pending = writer.fold.turn?.pending.at(-1);
    if (pending) drafts.addAll(policyAnswer(writer.spec, pending));
    return drafts;
  }

  get #offered(): readonly CustomTool[] {
    const { deps, writer } = this.#context;
    return offeredTools(writer.spec, deps.harness(writer.spec));
  }

  #answer(id: string, answer: ToolAnswer | SluiceError): void {
    for (const settle of this.#waiting.get(id) ?? []) settle(answer);
    this.#waiting.delete(id);
  }

  #wait(id: string, signal: AbortSignal): Promise<ToolAnswer | undefined> {
    const waiting = this.#waiting.get(id) ?? new Set();
    this.#waiting.set(id, waiting);
    const answer = new Promise<ToolAnswer | undefined>((resolve, reject) => {
      const settle: Settle = (answer) => (answer instanceof SluiceError ? reject(answer) : resolve(answer));
      waiting.add(settle);
      const leave = (): void => {
        waiting.delete(settle);
        resolve(undefined);
      };
      if (signal.aborted) leave();
      signal.addEventListener("abort", leave, { once: true });
    });
    // After a failed commit nobody awaits this promise, and its rejection must not count as unhandled.
    answer.catch(() => {});
    return answer;
  }

  /** Redacts the input: it does not pass through the intake, which redacts everything else. */
  #clean(input: unknown): unknown {
    const text = JSON.stringify(input);
    const hidden = this.#runner.process?.hide(text) ?? text;
    return hidden === text ? input : (JSON.parse(hidden) as unknown);
  }

  /** Waits until the output before the call is read, and with it the agent's own item of the call. */
  async #catchUp(id: string, { name, input }: ToolCall, signal: AbortSignal): Promise<void> {
    const { fold } = this.#context.writer;
    const isKnown = (): boolean =>
      !fold.turn ||
      fold.turn.pending.some((pending) => pending.id === id) ||
      fold.answered.some((answer) => answer.id === id) ||
      findOpenCall(fold.turn, name, input) !== undefined;
    for (let looks = LOOKS; looks > 0 && !signal.aborted; looks -= 1) {
      if (!(await this.#runner.isBehind()) && isKnown()) return;
      await sleep(LOOK_MS);
    }
  }

  /** Only the running process may call. */
  #demandRunning({ createdAt, process }: ToolRun): void {
    const { row, fold } = this.#context.writer;
    if (row.createdAt === createdAt && fold.processOpen && fold.processes === process) return;
    throw new SluiceError("token_invalid", "this run is over");
  }

  /** The answer in the log: a client's in this turn, or the cancellation at the end of an earlier turn. */
  #answered(id: string): ToolAnswer | undefined {
    const { fold } = this.#context.writer;
    const known = fold.answered.find((answer) => answer.id === id);
    if (!known) return undefined;
    const command = fold.turn?.outbox.find((entry) => entry.id === `answer:${id}`)?.command;
    const content = command?.type === "tool" ? command.content : [];
    const status = known.answer === "completed" || known.answer === "failed" ? known.answer : "cancelled";
    return { content, status };
  }

  #refusal({ name }: ToolCall): ToolAnswer | undefined {
    const { fold } = this.#context.writer;
    if (!fold.turn) return failure(`"${name}" was not called: no turn is running, so nobody would answer.`);
    if (fold.turn.interrupt) return { content: [], status: "cancelled" };
    if (this.#offered.some((tool) => tool.name === name)) return undefined;
    return failure(`There is no tool "${name}".`);
  }

  #request(id: string, { name, input }: ToolCall): EventDraft {
    const { spec, fold } = this.#context.writer;
    const { turn } = fold;
    const builtin = isRunByApplication(spec.tools, name) ? (true as const) : undefined;
    const callId = turn ? findOpenCall(turn, name, input) : undefined;
    const parent = callId === undefined ? undefined : own(turn?.calls ?? {}, callId)?.parentId;
    const data = { request_id: id, name, input, ...defined({ builtin, call_id: callId }) };
    return { type: "tool.requested", source: "agent", parent_id: parent, data };
  }
}

function failure(text: string): ToolAnswer {
  return { content: [{ type: "text", text }], status: "failed" };
}
