import { BadScript } from "./fields.ts";
import { parseStep, type Step } from "./step.ts";

const MARK = /^\s*#script(?![\w-])/;

/** The steps of a `#script` prompt; undefined for any other prompt. Lines after the array are ignored. */
export function parseScript(prompt: string): Step[] | undefined {
  const mark = MARK.exec(prompt);
  if (mark === null) return undefined;
  const from = prompt.length - prompt.slice(mark[0].length).trimStart().length;
  if (prompt[from] !== "[") {
    throw new BadScript(`#script must be followed by a JSON array of steps (${position(prompt, from)})`);
  }
  const scan = scanJson(prompt, from);
  if ("fault" in scan) {
    const found =
      scan.fault < prompt.length ? `found ${JSON.stringify(prompt[scan.fault])}` : "the text ends";
    throw new BadScript(
      `#script is not valid JSON: expected ${scan.expected}, ${found} (${position(prompt, scan.fault)})`,
    );
  }
  const rest = prompt.slice(scan.end);
  if (!/^[ \t\r]*(?:\n|$)/.test(rest)) {
    throw new BadScript(`#script has text behind its array (${position(prompt, scan.end)})`);
  }
  const steps = JSON.parse(prompt.slice(from, scan.end)) as unknown[];
  return steps.map((step, index) => parseStep(step, `steps[${index}]`));
}

function position(text: string, at: number): string {
  const before = text.slice(0, at).split("\n");
  return `line ${before.length}, column ${(before.at(-1) ?? "").length + 1}`;
}

/** Finds the end of a JSON value, or its first invalid character. `JSON.parse` gives neither. */
function scanJson(text: string, from: number): { end: number } | { fault: number; expected: string } {
  try {
    return { end: new Scanner(text).value(skipBlank(text, from), 0) };
  } catch (error) {
    if (error instanceof Fault) return { fault: error.at, expected: error.message };
    throw error;
  }
}

class Fault extends Error {
  readonly at: number;
  constructor(at: number, expected: string) {
    super(expected);
    this.at = at;
  }
}

const MAX_DEPTH = 500;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;

/** Each method takes the position of a token and returns the position after it. */
class Scanner {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  value(at: number, depth: number): number {
    if (depth > MAX_DEPTH) throw new Fault(at, `at most ${MAX_DEPTH} levels of nesting`);
    const character = this.#text[at];
    if (character === "{") return this.#sequence(at, depth, "}");
    if (character === "[") return this.#sequence(at, depth, "]");
    if (character === '"') return this.#string(at);
    for (const word of ["true", "false", "null"]) {
      if (this.#text.startsWith(word, at)) return at + word.length;
    }
    NUMBER.lastIndex = at;
    const number = NUMBER.exec(this.#text);
    if (number === null) throw new Fault(at, "a JSON value");
    return at + number[0].length;
  }

  #sequence(from: number, depth: number, close: "}" | "]"): number {
    let at = skipBlank(this.#text, from + 1);
    if (this.#text[at] === close) return at + 1;
    for (;;) {
      if (close === "}") at = this.#key(at);
      at = skipBlank(this.#text, this.value(at, depth + 1));
      if (this.#text[at] === close) return at + 1;
      if (this.#text[at] !== ",") throw new Fault(at, `"," or "${close}"`);
      at = skipBlank(this.#text, at + 1);
    }
  }

  #key(from: number): number {
    if (this.#text[from] !== '"') throw new Fault(from, "a key in double quotes");
    const at = skipBlank(this.#text, this.#string(from));
    if (this.#text[at] !== ":") throw new Fault(at, '":"');
    return skipBlank(this.#text, at + 1);
  }

  #string(from: number): number {
    for (let at = from + 1; ; at++) {
      const code = this.#text.charCodeAt(at);
      if (code === 0x22) return at + 1;
      // At the end of the text there is no character code.
      if (Number.isNaN(code)) throw new Fault(at, "the closing quote");
      if (code < 0x20) throw new Fault(at, "no raw control character");
      if (code !== 0x5c) continue;
      ESCAPE.lastIndex = at;
      const escape = ESCAPE.exec(this.#text);
      if (escape === null) throw new Fault(at, "a valid escape");
      at += escape[0].length - 1;
    }
  }
}

function skipBlank(text: string, from: number): number {
  let at = from;
  while (text[at] === " " || text[at] === "\n" || text[at] === "\t" || text[at] === "\r") at++;
  return at;
}
