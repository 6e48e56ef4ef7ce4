import type { Colors } from "picocolors/types.js";

/** Where the cursor of the transcript stands: all that has to be remembered between two events. */
export interface Cursor {
  readonly column: number;
  /** The line above is empty, or there is none. */
  readonly blank: boolean;
  /** Held back until it is whole, so that a word is never broken and never moves after it was printed. */
  readonly gap: string;
  readonly word: string;
}

export const HOME: Cursor = { column: 0, blank: true, gap: "", word: "" };

export interface Page {
  readonly paint: Colors;
  /** Infinity in a pipe: lines are then never wrapped. */
  readonly width: number;
  /** The options with which `sluice tail` finds what is shown here. */
  readonly where?: string;
  /** The words by which this program can be started again. */
  readonly command?: string;
}

type Style = (text: string) => string;

/** Writes onto the end of a transcript; collects the text, and knows the cursor behind it. */
export class Pen {
  readonly paint: Colors;
  readonly width: number;
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

  /** The command that shows the session again. */
  replayOf(session: string): string {
    return `${this.#command} tail ${session}${this.#where}`;
  }

  get cursor(): Cursor {
    return { column: this.#column, blank: this.#blank, gap: this.#gap, word: this.#word };
  }

  /** Ends the line that is being written, if there is one. */
  endLine(style: Style = String): void {
    this.#flush("", style);
    this.#gap = "";
    if (this.#column > 0) this.#newline();
  }

  /** An empty line before what comes, unless there is one already. */
  space(): void {
    this.endLine();
    if (!this.#blank) this.#newline();
  }

  line(text: string): void {
    this.endLine();
    this.#text += `${text}\n`;
    this.#blank = text === "";
  }

  /** Running text, as it comes: wrapped between words, with the spaces that code lines start with kept. */
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
