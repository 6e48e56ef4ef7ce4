import { clearScreenDown, createInterface, cursorTo, type Interface } from "node:readline";
import { Writable } from "node:stream";
import { InputEnded } from "../run/request-prompt.ts";
import { suspendAtCtrlZ } from "../terminal/suspend.ts";

export interface LineEditorOptions {
  /** The prompt of the first line, and of each further line. */
  readonly prompts: { readonly first: string; readonly more: string };
  readonly history: string[];
  /** The completions of a word at the start of the line. */
  readonly completions: readonly string[];
  /** A whole message. `isEchoed` is false if it was typed while the prompt was hidden. */
  readonly onText: (text: string, options: { isEchoed: boolean }) => void;
  /** Ctrl-C without a text to discard. */
  readonly onInterrupt: () => void;
  /** Ctrl-D. */
  readonly onEnd: () => void;
}

interface Question {
  readonly answer: (text: string) => void;
  readonly fail: (error: unknown) => void;
}

/** In this mode a terminal marks pasted text, so that the line ends in it do not submit it. */
const [PASTE_ON, PASTE_OFF] = ["\u001B[?2004h", "\u001B[?2004l"];
const HISTORY_SIZE = 500;

/**
 * The input line of a chat. While it is hidden, keys are kept without an echo. Alt-Enter, or a backslash at the end of a
 * line, begins another line of the same message.
 */
export class LineEditor {
  readonly #options: LineEditorOptions;
  readonly #terminal: NodeJS.WriteStream;
  readonly #lines: Interface;
  #isShown = false;
  #isPasting = false;
  /** The finished lines of the message. */
  #parts: string[] = [];
  /** Messages that were typed while the line was hidden. */
  #ahead: string[] = [];
  #question: Question | undefined;
  #isClosed = false;

  constructor(options: LineEditorOptions, terminal: NodeJS.WriteStream = process.stdout) {
    this.#options = options;
    this.#terminal = terminal;
    this.#lines = createInterface({
      input: process.stdin,
      output: this.#createOutput(),
      terminal: true,
      history: options.history,
      historySize: HISTORY_SIZE,
      removeHistoryDuplicates: true,
      completer: (line: string) => [options.completions.filter((word) => word.startsWith(line)), line],
    });
    terminal.write(PASTE_ON);
    this.#lines.on("line", (line) => this.#takeLine(line));
    this.#lines.on("SIGINT", () => this.#cancel());
    suspendAtCtrlZ(this.#lines, {
      before: () => terminal.write(PASTE_OFF),
      after: () => terminal.write(PASTE_ON),
    });
    this.#lines.on("close", () => this.#end());
    // Answers to questions are no messages, so they stay out of the history.
    this.#lines.on("history", (history) => {
      if (this.#question) history.shift();
    });
    process.stdin.on("keypress", this.#onKey);
  }

  /** Shows the prompt with the text so far. A message that was typed while the line was hidden is submitted instead. */
  show(): void {
    if (this.#isShown || this.#isClosed || this.#question) return;
    const ahead = this.#ahead.shift();
    if (ahead !== undefined) return this.#options.onText(ahead, { isEchoed: false });
    const typed = this.#clear();
    this.#isShown = true;
    const { first, more } = this.#options.prompts;
    for (const [n, part] of this.#parts.entries()) this.#terminal.write(`${n === 0 ? first : more}${part}\n`);
    this.#prompt();
    this.#lines.write(typed);
  }

  /** Removes the prompt from the screen; the text stays for the next time. A question stays where it is. */
  hide(): void {
    if (!this.#question) this.#remove();
  }

  /** Prints above the line: removes a prompt, and shows a question again below the text. */
  async above(print: () => Promise<void>): Promise<void> {
    this.#remove();
    await print();
    if (!this.#question || this.#isShown) return;
    const typed = this.#clear();
    this.#isShown = true;
    this.#lines.prompt();
    this.#lines.write(typed);
  }

  #remove(): void {
    if (!this.#isShown) return;
    const typed = this.#clear();
    cursorTo(this.#terminal, 0);
    clearScreenDown(this.#terminal);
    this.#isShown = false;
    this.#lines.write(typed);
  }

  /** Asks a question on a line of its own. A text that was typed before the question is no answer to it. */
  async ask(question: string, { signal, valid }: { signal: AbortSignal; valid: RegExp }): Promise<string> {
    if (this.#isClosed) throw new InputEnded();
    this.hide();
    const typed = this.#clear();
    this.#isShown = true;
    try {
      for (;;) {
        this.#lines.setPrompt(question);
        this.#lines.prompt();
        const answer = (await this.#answered(signal)).trim();
        if (valid.test(answer)) return answer;
      }
    } finally {
      this.#question = undefined;
      if (!this.#isClosed) {
        // Another client has answered first, and nothing was printed over the question.
        if (signal.aborted && this.#isShown) this.#terminal.write("\n");
        this.#isShown = false;
        this.#clear();
        this.#lines.write(typed);
      }
    }
  }

  close(): void {
    if (!this.#isClosed) this.#lines.close();
  }

  #answered(signal: AbortSignal): Promise<string> {
    return new Promise((answer, fail) => {
      const stop = (): void => fail(signal.reason);
      if (signal.aborted) return stop();
      signal.addEventListener("abort", stop, { once: true });
      this.#question = { answer, fail };
    });
  }

  #takeLine(line: string): void {
    if (this.#question) return this.#question.answer(line);
    if (this.#isPasting) return this.#addPart(line);
    if (line.endsWith("\\")) return this.#addPart(line.slice(0, -1));
    const text = [...this.#parts, line].join("\n");
    this.#parts = [];
    if (!this.#isShown) return void this.#ahead.push(text);
    this.#isShown = false;
    this.#options.onText(text, { isEchoed: true });
  }

  #addPart(line: string): void {
    this.#parts.push(line);
    this.#prompt();
  }

  readonly #onKey = (_text: unknown, key: { name?: string; meta?: boolean } | undefined): void => {
    if (key?.name === "paste-start") this.#isPasting = true;
    if (key?.name === "paste-end") this.#isPasting = false;
    const isEnter = key?.name === "return" || key?.name === "enter";
    if (!isEnter || !key.meta || this.#question) return;
    const typed = this.#clear();
    if (this.#isShown) this.#terminal.write(`${typed}\n`);
    this.#addPart(typed);
  };

  #prompt(): void {
    const { first, more } = this.#options.prompts;
    this.#lines.setPrompt(this.#parts.length === 0 ? first : more);
    this.#lines.prompt();
  }

  /** Empties the line and returns its text. */
  #clear(): string {
    const { line } = this.#lines;
    this.#lines.write(null, { ctrl: true, name: "e" });
    this.#lines.write(null, { ctrl: true, name: "u" });
    return line;
  }

  /** Discards the text, as shells do. Without a text, the caller decides. */
  #cancel(): void {
    const hasText = this.#lines.line !== "" || this.#parts.length > 0;
    if (!this.#isShown || this.#question || !hasText) return this.#options.onInterrupt();
    this.#parts = [];
    this.#terminal.write(`${this.#clear()}\n`);
    this.#prompt();
  }

  #end(): void {
    this.#isClosed = true;
    process.stdin.off("keypress", this.#onKey);
    this.#terminal.write(PASTE_OFF);
    if (this.#isShown) this.#terminal.write("\n");
    this.#question?.fail(new InputEnded());
    this.#options.onEnd();
  }

  /** Passes output on to the terminal, except while the line is hidden. */
  #createOutput(): Writable {
    const output = new Writable({
      write: (chunk: Buffer, _encoding, done) => {
        if (this.#isShown) this.#terminal.write(chunk);
        done();
      },
    });
    this.#terminal.on("resize", () => output.emit("resize"));
    return Object.defineProperty(output, "columns", { get: () => this.#terminal.columns });
  }
}
