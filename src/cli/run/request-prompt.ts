import { createInterface } from "node:readline/promises";
import type { EventOf, SluiceEvent } from "../../contract/index.ts";
import type { Answer, Controls } from "../source/port.ts";
import type { Screen } from "../terminal/screen.ts";
import { suspendAtCtrlZ } from "../terminal/suspend.ts";
import { toOneLine } from "../transcript/pen.ts";

type Request = EventOf<"permission.requested"> | EventOf<"question.requested"> | EventOf<"tool.requested">;

/** Asks a person. Fails with `InputEnded` at the end of the input. */
export type Ask = (question: string, options: { signal: AbortSignal; valid: RegExp }) => Promise<string>;

export interface RequestOptions {
  readonly interrupt: () => void;
  /** The treatment of a request without a person: refuse it, or leave it to another client of the server. */
  readonly unattended: "refuse" | "wait";
  /** Asks at the terminal (default: with a line of its own). */
  readonly ask?: Ask;
}

/**
 * Answers an agent's requests. It asks a person at the terminal; without a terminal it refuses or waits. Another client
 * may answer first.
 */
export class RequestPrompt {
  readonly #controls: Controls;
  readonly #screen: Screen;
  readonly #options: RequestOptions;
  readonly #ask: Ask;
  readonly #open = new Map<string, AbortController>();
  readonly #isInteractive = Boolean(process.stdin.isTTY && process.stderr.isTTY);
  #queue: Promise<void> = Promise.resolve();
  #failure: unknown;

  constructor(controls: Controls, screen: Screen, options: RequestOptions) {
    this.#controls = controls;
    this.#screen = screen;
    this.#options = options;
    this.#ask = options.ask ?? ((question, asking) => askAtTerminal(question, asking, options.interrupt));
  }

  /** Whether a person is being asked. */
  get isAsking(): boolean {
    return this.#isInteractive && this.#open.size > 0;
  }

  /** Takes the requests. Call it after the event was printed, so that the question stands below its request. */
  observe(event: SluiceEvent): void {
    if (this.#failure) throw this.#failure;
    if (!isRequest(event)) return;
    const stop = new AbortController();
    const id = idOf(event);
    this.#open.set(id, stop);
    this.#queue = this.#queue
      .then(() => this.#answer(event, stop.signal))
      .catch((error: unknown) => {
        this.#failure = error;
      })
      .finally(() => this.#open.delete(id));
  }

  /** Withdraws the question that the event answers. Call it before the event is printed. */
  settle(event: SluiceEvent): void {
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
    const { pendingActions } = await this.#controls.info(request.session_id);
    if (signal.aborted || !pendingActions.some((action) => action.id === idOf(request))) return;
    try {
      if (!this.#isInteractive)
        return await this.#doWithoutPerson(request, "standard input is not a terminal");
      const answer = await this.#askPerson(request, signal).catch((error: unknown) => {
        if (error instanceof InputEnded) return undefined;
        throw error;
      });
      if (answer === undefined) return await this.#doWithoutPerson(request, "standard input has ended");
      await this.#controls.answer(request.session_id, idOf(request), answer);
    } catch (error) {
      if (!isLate(error) && !signal.aborted) throw error;
    }
  }

  async #askPerson(request: Request, signal: AbortSignal): Promise<Answer> {
    const ask = (question: string, valid: RegExp): Promise<string> => {
      this.#screen.status("");
      return this.#ask(question, { signal, valid });
    };
    if (request.type === "permission.requested") {
      const answer = await ask("  allow? [y]es, [a]lways, [n]o: ", /^(y|yes|a|always|n|no)$/i);
      const reply = ({ y: "once", a: "always" } as const)[answer.charAt(0).toLowerCase()] ?? "reject";
      return { kind: "permission", reply };
    }
    if (request.type === "question.requested") {
      const { options } = request.data;
      const hint = options.length > 0 ? `a number from 1 to ${options.length}, or words` : "answer";
      return { kind: "question", text: toChosen(await ask(`  ${hint}: `, /\S/), options) };
    }
    const output = await ask("  its output (empty: it failed): ", /^/);
    return { kind: "tool", output: output || "Nobody could run the tool.", isError: output === "" };
  }

  /** Refuses the request, or leaves it to another client. */
  async #doWithoutPerson(request: Request, why: string): Promise<void> {
    const { session_id: session } = request;
    if (this.#options.unattended === "wait") {
      const how = `\`sluice answer ${session} ${idOf(request)} ${toAnswerExample(request)}\``;
      return this.#screen.note(`sluice: ${toWords(request)} waits for an answer: ${how}`);
    }
    await this.#controls.answer(session, idOf(request), toRefusal(request));
    this.#screen.note(
      `sluice: ${toWords(request)} ${OUTCOMES[request.type]}, because ${why}. To answer, run this in a terminal, ` +
        `or use a server: \`sluice serve\`, \`sluice send\` and \`sluice answer\`.`,
    );
  }
}

/** Asks with a line editor of its own, on standard error. */
async function askAtTerminal(
  question: string,
  { signal, valid }: { signal: AbortSignal; valid: RegExp },
  interrupt: () => void,
): Promise<string> {
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  lines.on("SIGINT", interrupt);
  suspendAtCtrlZ(lines);
  const stop = new AbortController();
  lines.once("close", () => stop.abort());
  signal.addEventListener("abort", endLine);
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
    signal.removeEventListener("abort", endLine);
    lines.close();
  }
}

/** Ends the line of a question that another client has answered, so that the transcript continues below it. */
function endLine(): void {
  process.stderr.write("\n");
}

export class InputEnded extends Error {}

/** The chosen option. A number chooses by position, unless an option has the number as its text. */
export function toChosen(answer: string, options: readonly string[]): string {
  if (options.includes(answer) || !/^\d+$/.test(answer)) return answer;
  return options[Number(answer) - 1] ?? answer;
}

/** The effect of a refusal, for the message to the person. */
const OUTCOMES = {
  "permission.requested": "was denied",
  "question.requested": "was not answered",
  "tool.requested": "was not run",
} as const;

function toRefusal(request: Request): Answer {
  if (request.type === "permission.requested")
    return { kind: "permission", reply: "reject", message: "Nobody was there to allow it." };
  if (request.type === "question.requested") return { kind: "question", text: undefined };
  const output = "No application is connected that could run this tool.";
  return { kind: "tool", output, isError: true };
}

function toWords(request: Request): string {
  if (request.type === "permission.requested")
    return `permission for "${toOneLine(request.data.action, 200)}"`;
  if (request.type === "question.requested") return `the question "${toOneLine(request.data.prompt, 200)}"`;
  return `the tool "${toOneLine(request.data.name, 80)}"`;
}

function toAnswerExample({ type }: Request): string {
  return type === "permission.requested" ? "once|always|reject" : "TEXT";
}

/** Whether another client was faster, or the turn has ended. */
function isLate(error: unknown): boolean {
  const { code } = error as { code?: unknown };
  return code === "already_resolved" || code === "action_not_found";
}

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
