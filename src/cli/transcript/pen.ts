import type { Colors } from "picocolors/types.js";
import { nameProgram } from "../terminal/invocation.ts";

/** The position at the end of the transcript. */
export interface Cursor {
  readonly column: number;
  /** Whether the line above is empty or missing. */
  readonly blank: boolean;
  /** White space that is printed with the next word, if that word fits on the line. */
  readonly gap: string;
  /** The unprinted word so far. It is printed whole, because a printed word cannot move to the next line. */
  readonly word: string;
}

export const HOME: Cursor = { column: 0, blank: true, gap: "", word: "" };

export interface Page {
  readonly paint: Colors;
  /** Infinity in a pipe, where lines are not wrapped. */
  readonly width: number;
  /** The options that make `sluice tail` read this source, for hints. */
  readonly where?: string;
  /** The command that starts this program, for hints. */
  readonly command?: string;
  /** Whether the reader knows the session, so that the end of a turn need not name it. */
  readonly isChat?: boolean;
}

type Style = (text: string) => string;

/** Appends to a transcript: collects text and moves the cursor. */
export class Pen {
  readonly paint: Colors;
  readonly width: number;
  readonly isChat: boolean;
  readonly #where: string;
  readonly #command: string;
  #text = "";
  #column: number;
  #blank: boolean;
  #gap: string;
  #word: string;

  constructor(page: Page, cursor: Cursor) {
    this.paint = page.paint;
    this.width = page.width;
    this.isChat = page.isChat ?? false;
    this.#where = page.where ?? "";
    this.#command = page.command ?? "sluice";
    this.#column = cursor.column;
    this.#blank = cursor.blank;
    this.#gap = cursor.gap;
    this.#word = cursor.word;
  }

  get text(): string {
    return this.#text;
  }

  /** A hint with the program as the user called it. */
  hint(text: string): string {
    return nameProgram(text, this.#command);
  }

  /** The command that shows the session again. */
  replayOf(session: string): string {
    return `${this.#command} tail ${session}${this.#where}`;
  }

  get cursor(): Cursor {
    return { column: this.#column, blank: this.#blank, gap: this.#gap, word: this.#word };
  }

  /** Ends the current line, if there is one. */
  endLine(style: Style = String): void {
    this.#flush("", style);
    this.#gap = "";
    if (this.#column > 0) this.#newline();
  }

  /** Ensures an empty line above the next text. */
  space(): void {
    this.endLine();
    if (!this.#blank) this.#newline();
  }

  line(text: string): void {
    this.endLine();
    this.#text += `${text}\n`;
    this.#blank = text === "";
  }

  /** Prints running text, wrapped between words. The leading spaces of code stay. */
  flow(text: string, indent: string, style: Style = String): void {
    for (const [token] of text.matchAll(/\n|[^\S\n]+|\S+/g)) {
      if (token === "\n") {
        this.#flush(indent, style);
        this.#gap = "";
        this.#newline();
      } else if (/\S/.test(token)) {
        this.#word += token;
      } else {
        this.#flush(indent, style);
        this.#gap += token.replaceAll("\t", "  ");
      }
    }
    if (this.width === Infinity) this.#flush(indent, style);
  }

  #flush(indent: string, style: Style): void {
    if (this.#word === "") return;
    const room = this.width - this.#column - this.#gap.length - this.#word.length;
    if (room < 0 && this.#column > indent.length) {
      this.#newline();
      this.#gap = "";
    }
    if (this.#column === 0) this.#put(indent);
    this.#put(this.#gap);
    this.#column += this.#word.length;
    this.#text += style(this.#word);
    this.#gap = "";
    this.#word = "";
    this.#blank = false;
  }

  #put(text: string): void {
    this.#text += text;
    this.#column += text.length;
  }

  #newline(): void {
    this.#blank = this.#column === 0;
    this.#column = 0;
    this.#text += "\n";
  }
}

// oxlint-disable-next-line no-control-regex -- control characters are what is removed here
const SEQUENCES = /\u001B(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001B]*(?:\u0007|\u001B\\)?|[@-Z\\^_])/g;
// oxlint-disable-next-line no-control-regex -- control characters are what is removed here
const CONTROLS = /[\u0000-\u0008\u000B-\u001F\u007F-\u009F\u202A-\u202E\u2066-\u2069]/g;

/** Removes escape sequences and control characters except newline and tab: an agent must not control the terminal. */
export function toPrintable(text: string): string {
  return text.replaceAll(SEQUENCES, "").replaceAll(/\r\n?/g, "\n").replaceAll(CONTROLS, "");
}

/** Text as one line of at most `width` characters. */
export function toOneLine(text: string, width: number): string {
  return cut(
    toPrintable(text)
      .trim()
      .replaceAll(/\s*\n\s*/g, " ⏎ "),
    width,
  );
}

export function cut(line: string, width: number): string {
  if (line.length <= width) return line;
  // A cut inside a surrogate pair would print half a character.
  return `${line.slice(0, Math.max(0, width - 1)).replace(/[\uD800-\uDBFF]$/, "")}…`;
}
