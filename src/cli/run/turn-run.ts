import { createInterface } from "node:readline/promises";
import { type EventOf, SluiceError, type SluiceEvent } from "../../contract/index.ts";
import type { EngineOptions } from "../../sessions/index.ts";
import type { Engine } from "../../sessions/port.ts";
import { followLog } from "../source/folder.ts";
import { EXIT } from "../terminal/failure.ts";
import type { Screen } from "../terminal/screen.ts";
import type { Print } from "../transcript/formats.ts";

/** One turn of `sluice run`: sends the prompt, prints the events, answers the agent's requests. */
export class TurnRun {
  readonly #engine: Engine;
  readonly #session: string;
  readonly #screen: Screen;
  readonly #print: Print;
  readonly #requests: RequestPrompt;
  readonly #stopped = new AbortController();
  #interrupts = 0;

  constructor(engine: Engine, options: { session: string; screen: Screen; print: Print }) {
    this.#engine = engine;
    this.#session = options.session;
    this.#screen = options.screen;
    this.#print = options.print;
    this.#requests = new RequestPrompt(engine, options.screen, { interrupt: () => this.interrupt() });
  }

  /** The first call ends the turn, the second the session, the third this process. */
  interrupt(): void {
    this.#interrupts += 1;
    if (this.#interrupts > 2) process.exit(EXIT.interrupted);
    const isFirst = this.#interrupts === 1;
    this.#screen.note(
      isFirst ? "\nInterrupting the turn. Ctrl-C again kills the session." : "\nKilling the session.",
    );
    this.#stop();
  }

  #stop(): void {
    const isFirst = this.#interrupts === 1;
    const stop = isFirst
      ? this.#engine.interrupt(this.#session, { by: "cli" })
      : this.#engine.terminate(this.#session);
    stop.catch((error: unknown) => this.#stopped.abort(error));
  }

  async run(prompt: string): Promise<number> {
    const content = [{ type: "text" as const, text: prompt }];
    const { turnId, after } = await this.#engine.send(this.#session, { content, via: "cli" });
    let end: EventOf<"turn.ended"> | undefined;
    try {
      const signal = this.#stopped.signal;
      for await (const stored of followLog(this.#engine.log, this.#session, { after, signal })) {
        // The turn continues when the reader of the output has gone, as with `| head`.
        await this.#screen.write(this.#print(stored));
        const event = JSON.parse(stored.body) as SluiceEvent;
        // An interrupt before the turn's start had nothing to interrupt, so it is repeated.
        if (event.type === "turn.started" && this.#interrupts === 1) this.#stop();
        if (event.type === "turn.ended" && event.data.turn_id === turnId) end = event;
        if (end && !(await this.#isEnding(end))) break;
        this.#requests.observe(event);
      }
      this.#stopped.signal.throwIfAborted();
    } finally {
      await this.#requests.close();
    }
    return this.#exitCode(end);
  }

  /** Whether the session ends too. Its `session.ended`, which has the reason, comes after the agent's exit. */
  async #isEnding({ data }: EventOf<"turn.ended">): Promise<boolean> {
    if (data.stop_reason === "terminated" || this.#interrupts > 1) return true;
    if (data.status === "completed") return false;
    const row = await this.#engine.log.find(this.#session);
    if (data.stop_reason === "model_error") return row?.spec.lasting !== true;
    const info = await this.#engine.info(this.#session);
    return info.ended;
  }

  #exitCode(end: EventOf<"turn.ended"> | undefined): number {
    if (this.#interrupts > 0 || end?.data.status === "interrupted") return EXIT.interrupted;
    return end?.data.status === "completed" ? EXIT.ok : EXIT.failed;
  }
}

/** Prints errors that cannot become events, such as a full disk, each once. */
export function createErrorPrinter(screen: Screen): NonNullable<EngineOptions["logger"]> {
  const printed = new Set<string>();
  return ({ level, message, error }) => {
    // The session's log has everything below an error.
    if (level !== "error") return;
    const text = error === undefined ? message : `${message}: ${String(error)}`;
    if (printed.has(text)) return;
    printed.add(text);
    screen.fail(text);
  };
}

type Request = EventOf<"permission.requested"> | EventOf<"question.requested"> | EventOf<"tool.requested">;

/**
 * Answers an agent's requests during `sluice run`. It asks a person at the terminal; without a terminal it refuses.
 * Another client may answer first.
 */
class RequestPrompt {
  readonly #engine: Engine;
  readonly #screen: Screen;
  readonly #interrupt: () => void;
  readonly #open = new Map<string, AbortController>();
  readonly #isInteractive = Boolean(process.stdin.isTTY && process.stderr.isTTY);
  #queue: Promise<void> = Promise.resolve();
  #failure: unknown;

  constructor(engine: Engine, screen: Screen, options: { interrupt: () => void }) {
    this.#engine = engine;
    this.#screen = screen;
    this.#interrupt = options.interrupt;
  }

  observe(event: SluiceEvent): void {
    if (this.#failure) throw this.#failure;
    if (isRequest(event)) {
      const stop = new AbortController();
      this.#open.set(idOf(event), stop);
      this.#queue = this.#queue
        .then(() => this.#answer(event, stop.signal))
        .catch((error: unknown) => {
          this.#failure = error;
        });
      return;
    }
    if (event.type === "permission.resolved") this.#open.get(event.data.permission_id)?.abort();
    if (event.type === "question.resolved") this.#open.get(event.data.question_id)?.abort();
    if (event.type === "tool.resolved") this.#open.get(event.data.request_id)?.abort();
  }

  async close(): Promise<void> {
    for (const stop of this.#open.values()) stop.abort();
    await this.#queue;
  }

  async #answer(request: Request, signal: AbortSignal): Promise<void> {
    // A policy may have answered already.
    const { pendingActions } = await this.#engine.info(request.session_id);
    if (signal.aborted || !pendingActions.some((action) => action.id === idOf(request))) return;
    try {
      if (!this.#isInteractive) return await this.#refuse(request, "standard input is not a terminal");
      await this.#askPerson(request, signal).catch((error: unknown) => {
        if (!(error instanceof InputEnded)) throw error;
        return this.#refuse(request, "standard input has ended");
      });
    } catch (error) {
      const isLate =
        error instanceof SluiceError && ["already_resolved", "action_not_found"].includes(error.code);
      if (!isLate && !signal.aborted) throw error;
    }
  }

  async #askPerson(request: Request, signal: AbortSignal): Promise<void> {
    const session = request.session_id;
    if (request.type === "permission.requested") {
      const answer = await this.#ask("  allow? [y]es, [a]lways, [n]o: ", signal, /^(y|yes|a|always|n|no)$/i);
      const reply = { y: "once", a: "always", n: "reject" }[answer.charAt(0).toLowerCase()] as
        | "once"
        | "always"
        | "reject";
      return this.#engine.resolvePermission(session, request.data.permission_id, { reply, by: "cli" });
    }
    if (request.type === "question.requested") {
      const { options, question_id: id } = request.data;
      const hint = options.length > 0 ? `a number from 1 to ${options.length}, or words` : "answer";
      const answer = await this.#ask(`  ${hint}: `, signal, /\S/);
      const chosen = /^\d+$/.test(answer) ? options[Number(answer) - 1] : undefined;
      return this.#engine.resolveQuestion(session, id, { answers: [[chosen ?? answer]], by: "cli" });
    }
    const output = await this.#ask("  its output (empty: it failed): ", signal, /^/);
    const reply = { output: output || "Nobody could run the tool.", isError: output === "", by: "cli" };
    return this.#engine.resolveTool(session, request.data.request_id, reply);
  }

  async #refuse(request: Request, why: string): Promise<void> {
    const { session_id: session } = request;
    const say = (what: string): void => this.#say(what, { why, session });
    if (request.type === "permission.requested") {
      const message = "Nobody was there to allow it.";
      await this.#engine.resolvePermission(session, request.data.permission_id, {
        reply: "reject",
        message,
        by: "cli",
      });
      return say(`permission for "${request.data.action}" was denied`);
    }
    if (request.type === "question.requested") {
      await this.#engine.resolveQuestion(session, request.data.question_id, { rejected: true, by: "cli" });
      return say(`the question "${request.data.prompt}" was not answered`);
    }
    const output = "No application is connected that could run this tool.";
    await this.#engine.resolveTool(session, request.data.request_id, { output, isError: true, by: "cli" });
    return say(`the tool "${request.data.name}" was not run`);
  }

  #say(what: string, { why, session }: { why: string; session: string }): void {
    this.#screen.note(
      `sluice: ${what}, because ${why}. To answer, run this in a terminal, ` +
        `or start \`sluice serve\` and send the message there (POST /v1/sessions/${session}/messages).`,
    );
  }

  async #ask(question: string, signal: AbortSignal, valid: RegExp): Promise<string> {
    const lines = createInterface({ input: process.stdin, output: process.stderr });
    lines.on("SIGINT", this.#interrupt);
    const stop = new AbortController();
    lines.once("close", () => stop.abort());
    try {
      for (;;) {
        const either = AbortSignal.any([signal, stop.signal]);
        const answer = (await lines.question(question, { signal: either })).trim();
        if (valid.test(answer)) return answer;
      }
    } catch (error) {
      // Ctrl-D ends the input, and readline would then never settle the question.
      throw stop.signal.aborted && !signal.aborted ? new InputEnded() : error;
    } finally {
      lines.close();
    }
  }
}

class InputEnded extends Error {}

function isRequest(event: SluiceEvent): event is Request {
  return (
    event.type === "permission.requested" ||
    event.type === "question.requested" ||
    event.type === "tool.requested"
  );
}

function idOf(request: Request): string {
  if (request.type === "permission.requested") return request.data.permission_id;
  return request.type === "question.requested" ? request.data.question_id : request.data.request_id;
}
