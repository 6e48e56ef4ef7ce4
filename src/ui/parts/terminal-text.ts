/* oxlint-disable no-control-regex -- control characters are what is read here */

/** A part of a line in one style. */
export interface Piece {
  readonly text: string;
  readonly classes: string;
}

/** Characters of one line that are kept, and its changes of style. */
const MAX_COLUMNS = 1_000;
const MAX_PIECES = 60;
const NAMES = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
/** Text, or one control: an escape sequence, or a single character. */
const TOKEN =
  /\u001B(?:[\]P^_X][^\u0007\u001B]*(?:\u0007|\u001B\\)?|\[([0-9;:<=>?]*)[ -/]*([@-~])|[ -/]+[0-~]|[0-~])?|[\u0000-\u001F\u007F-\u009F\u200E\u200F\u202A-\u202E\u2066-\u2069]|[^\u0000-\u001F\u007F-\u009F\u200E\u200F\u202A-\u202E\u2066-\u2069]+/gu;

const CONTROL = /^[\u0000-\u001F\u007F-\u009F\u200E\u200F\u202A-\u202E\u2066-\u2069]/;

interface Line {
  readonly chars: string[];
  readonly styles: string[];
}

/**
 * Output as a terminal would leave it: colours, and a cursor that returns, goes back, erases and moves among the lines
 * that were written. Titles, questions to the terminal and jumps to a place on the screen leave nothing behind.
 */
export function paint(text: string): Piece[][] {
  const screen = new Screen();
  for (const [token, given, final] of text.matchAll(TOKEN)) {
    if (final !== undefined) screen.control(final, given ?? "");
    else if (CONTROL.test(token)) screen.character(token);
    else screen.write(token);
  }
  return screen.toPieces();
}

class Screen {
  readonly #lines: Line[] = [];
  #row = 0;
  #column = 0;
  readonly #style = new Style();

  get #line(): Line {
    while (this.#lines.length <= this.#row) this.#lines.push({ chars: [], styles: [] });
    return this.#lines[this.#row] as Line;
  }

  write(text: string): void {
    const { chars, styles } = this.#line;
    const { classes } = this.#style;
    for (const char of text) {
      if (this.#column >= MAX_COLUMNS) return;
      // A place that was jumped over is a space.
      for (let gap = chars.length; gap < this.#column; gap++) {
        chars[gap] = " ";
        styles[gap] = "";
      }
      chars[this.#column] = char;
      styles[this.#column] = classes;
      this.#column += 1;
    }
  }

  character(char: string): void {
    if (char === "\n" || char === "\v" || char === "\f") {
      void this.#line;
      this.#row += 1;
      this.#column = 0;
    } else if (char === "\r") this.#column = 0;
    else if (char === "\b") this.#column = Math.max(0, this.#column - 1);
    else if (char === "\t") this.write(" ".repeat(8 - (this.#column % 8)));
  }

  control(final: string, given: string): void {
    if (final === "m") return this.#style.set(given);
    const count = Math.min(MAX_COLUMNS, Math.max(1, Number.parseInt(given, 10) || 1));
    if (final === "K") return this.#erase(Number.parseInt(given, 10) || 0);
    if (final === "G") this.#column = count - 1;
    if (final === "C") this.#column = Math.min(MAX_COLUMNS, this.#column + count);
    if (final === "D") this.#column = Math.max(0, this.#column - count);
    if (final === "A" || final === "F") this.#row = Math.max(0, this.#row - count);
    if (final === "B" || final === "E")
      this.#row = Math.min(Math.max(0, this.#lines.length - 1), this.#row + count);
    if (final === "E" || final === "F") this.#column = 0;
  }

  #erase(how: number): void {
    const { chars, styles } = this.#line;
    if (how === 0) chars.length = Math.min(chars.length, this.#column);
    if (how === 1) chars.fill(" ", 0, this.#column + 1);
    if (how === 2) chars.length = 0;
    styles.length = chars.length;
  }

  toPieces(): Piece[][] {
    const lines = this.#lines.map(toPieces);
    if (lines.at(-1)?.length === 0) lines.pop();
    return lines;
  }
}

function toPieces({ chars, styles }: Line): Piece[] {
  const pieces: Piece[] = [];
  let from = 0;
  while (from < chars.length) {
    const classes = styles[from] ?? "";
    // The rest of a line with too many styles has none.
    const isLast = pieces.length === MAX_PIECES - 1;
    let to = isLast ? chars.length : from + 1;
    while (to < chars.length && styles[to] === classes) to += 1;
    pieces.push({ text: chars.slice(from, to).join(""), classes: isLast ? "" : classes });
    from = to;
  }
  return pieces;
}

/** The style that `SGR` sequences set, as names of classes. */
class Style {
  classes = "";
  #fg = "";
  #bg = "";
  readonly #flags = new Set<string>();

  set(given: string): void {
    const codes = given.split(/[;:]/).map((code) => Number.parseInt(code, 10) || 0);
    for (let at = 0; at < codes.length; at++) {
      const code = codes[at] as number;
      if (code === 38 || code === 48) {
        const { name, used } = toColour(codes.slice(at + 1));
        at += used;
        if (code === 38) this.#fg = name;
        else this.#bg = name;
      } else this.#apply(code);
    }
    this.classes = [
      this.#fg && `fg-ansi-${this.#fg}`,
      this.#bg && `bg-ansi-${this.#bg}`,
      ...[...this.#flags].map((flag) => `ansi-${flag}`),
    ]
      .filter(Boolean)
      .join(" ");
  }

  #apply(code: number): void {
    if (code === 0) {
      this.#fg = this.#bg = "";
      this.#flags.clear();
    }
    const flag = FLAGS[code];
    if (flag !== undefined) this.#flags.add(flag);
    for (const name of ENDS[code] ?? []) this.#flags.delete(name);
    if (code >= 30 && code <= 37) this.#fg = NAMES[code - 30] ?? "";
    if (code >= 90 && code <= 97) this.#fg = `bright-${NAMES[code - 90]}`;
    if (code >= 40 && code <= 47) this.#bg = NAMES[code - 40] ?? "";
    if (code >= 100 && code <= 107) this.#bg = `bright-${NAMES[code - 100]}`;
    if (code === 39) this.#fg = "";
    if (code === 49) this.#bg = "";
  }
}

const FLAGS: Readonly<Record<number, string>> = {
  1: "bold",
  2: "dim",
  3: "italic",
  4: "underline",
  7: "reverse",
  9: "strikethrough",
};
const ENDS: Readonly<Record<number, readonly string[]>> = {
  22: ["bold", "dim"],
  23: ["italic"],
  24: ["underline"],
  27: ["reverse"],
  29: ["strikethrough"],
};

/** A colour of 256 or of three bytes as the nearest of the 16, which have a contrast in both themes. */
function toColour([kind = 0, ...values]: readonly number[]): { name: string; used: number } {
  const [first = 0, green = 0, blue = 0] = values;
  if (kind === 2) return { name: nearest(first, green, blue), used: 4 };
  if (kind !== 5) return { name: "", used: 0 };
  if (first < 8) return { name: NAMES[first] ?? "", used: 2 };
  if (first < 16) return { name: `bright-${NAMES[first - 8]}`, used: 2 };
  if (first >= 232) return { name: first < 244 ? "bright-black" : "white", used: 2 };
  const cube = first - 16;
  return {
    name: nearest(level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6)),
    used: 2,
  };
}

/** The byte of one of the six steps of a colour. */
function level(step: number): number {
  return step === 0 ? 0 : 55 + step * 40;
}

function nearest(red: number, green: number, blue: number): string {
  const most = Math.max(red, green, blue);
  if (most < 64) return "black";
  const bit = (value: number): number => (value > most / 2 ? 1 : 0);
  return NAMES[bit(red) + 2 * bit(green) + 4 * bit(blue)] ?? "white";
}
