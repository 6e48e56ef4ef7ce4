import type { LentSecret } from "../../../contract/process.ts";

/** A secret, and its replacement. */
type Secret = Pick<LentSecret, "placeholder" | "value">;

/** A byte sequence with several possible bytes at each position. */
type Word = readonly (readonly number[])[];

/** One state of an automaton that reads the forms of secrets byte by byte. */
export class State {
  /** The replacement of the form that ends in this state; undefined where none ends. */
  readonly placeholder: Buffer | undefined;
  readonly #edges = new Map<number, State[]>();
  #grow: ((state: State) => void) | undefined;

  constructor(options: { placeholder?: Buffer | undefined; grow?: (state: State) => void } = {}) {
    this.placeholder = options.placeholder;
    this.#grow = options.grow;
  }

  step(byte: number): readonly State[] | undefined {
    this.#growOnce();
    return this.#edges.get(byte);
  }

  bytes(): Iterable<number> {
    this.#growOnce();
    return this.#edges.keys();
  }

  /** Adds a path to another state. */
  lead(word: Word, to: State): void {
    const [first = [], ...rest] = word;
    const next = rest.length === 0 ? to : new State();
    for (const byte of new Set(first)) {
      const known = this.#edges.get(byte);
      if (known === undefined) this.#edges.set(byte, [next]);
      else known.push(next);
    }
    if (rest.length > 0) next.lead(rest, to);
  }

  /** States are made on demand: a long key has thousands, and most are never reached. */
  #growOnce(): void {
    const grow = this.#grow;
    this.#grow = undefined;
    grow?.(this);
  }
}

/** The recognised ways to write a secret, as one automaton. */
export class SecretForms {
  readonly start: State = new State();
  /** Whether a form begins with these two bytes, the first one in the high half. */
  readonly pairs: Uint8Array = new Uint8Array(65_536);
  /** Whether a form begins with this byte. */
  readonly firsts: Uint8Array = new Uint8Array(256);
  /** An upper bound for the length of a form, with every escape. */
  readonly longest: number;

  constructor(secrets: readonly Secret[]) {
    for (const secret of secrets) addForms(this.start, secret);
    this.longest = Math.max(65_536, ...secrets.map(({ value }) => value.length * 32));
    for (const first of this.start.bytes()) {
      this.firsts[first] = 1;
      for (const state of this.start.step(first) ?? []) {
        // A secret of one byte ends here.
        if (state.placeholder !== undefined) this.pairs.fill(1, first << 8, (first << 8) + 256);
        for (const second of state.bytes()) this.pairs[(first << 8) | second] = 1;
      }
    }
  }
}

/** The encoded forms of shorter values would be found by chance. */
const LEAST_ENCODED = 4;
/** Line breaks in base64 are skipped after this many characters. Any earlier, too many ordinary lines would be held back. */
const LEAST_BROKEN = 8;

/** Adds the ways to write a secret: as text, in hex, in base64, in UTF-16 and in Latin-1. */
function addForms(start: State, { value, placeholder }: Secret): void {
  const bytes = Buffer.from(value);
  if (bytes.length === 0) return;
  const to = Buffer.from(placeholder);
  addForm(start, bytes.length, to, (state, at, stateAt) => growText(state, bytes, at, stateAt));
  if (bytes.length < LEAST_ENCODED) return;
  addForm(start, bytes.length, to, (state, at, stateAt) => {
    const byte = bytes[at] as number;
    state.lead([hexDigit(byte >> 4), hexDigit(byte & 15)], stateAt(at + 1));
    if (at >= LEAST_ENCODED) state.lead([[...Buffer.from(" :-")]], state);
  });
  for (const text of new Set([value, toJsonText(value), toPercentText(value)])) {
    for (const offset of [0, 1, 2]) addBase64(start, Buffer.from(text), offset, to);
  }
  const wide = Buffer.from(value, "utf16le");
  const latin = /[\u0080-\u00ff]/.test(value) ? [Buffer.from(value, "latin1")] : [];
  for (const raw of [wide, Buffer.from(wide).swap16(), ...latin]) {
    addForm(start, raw.length, to, (state, at, stateAt) =>
      state.lead([[raw[at] as number]], stateAt(at + 1)),
    );
  }
}

/** Adds a form of `length` steps. `grow` adds the transitions of one step's state. */
function addForm(
  start: State,
  length: number,
  placeholder: Buffer,
  grow: (state: State, at: number, stateAt: (at: number) => State) => void,
): void {
  const states: State[] = [];
  const stateAt = (at: number): State =>
    (states[at] ??=
      at === length ? new State({ placeholder }) : new State({ grow: (state) => grow(state, at, stateAt) }));
  grow(start, 0, stateAt);
}

/**
 * Adds the ways to write one byte: as it is, or escaped as in URLs, JSON, programs and HTML, once or several times. Each
 * byte of a secret may be written in another way.
 */
function growText(state: State, bytes: Buffer, at: number, stateAt: (at: number) => State): void {
  const byte = bytes[at] as number;
  const next = stateAt(at + 1);
  const twoDigits = [hexDigit(byte >> 4), hexDigit(byte & 15)];
  state.lead([[byte]], next);
  if (byte === 0x20) state.lead(toWord("+"), next);
  const percent = new State();
  percent.lead(toWord("25"), percent);
  percent.lead(twoDigits, next);
  state.lead(toWord("%"), percent);
  const escape = new State();
  // Before the first byte, further backslashes are not part of the form.
  if (at > 0) escape.lead(toWord("\\"), escape);
  escape.lead([[byte]], next);
  escape.lead([...toWord("x"), ...twoDigits], next);
  escape.lead(toWord(byte.toString(8).padStart(3, "0")), next);
  const letter = LETTERS[byte];
  if (letter !== undefined) escape.lead(toWord(letter), next);
  state.lead(toWord("\\"), escape);
  const character = isContinuation(byte) ? "" : (bytes.toString("utf8", at, at + 4).match(/^./su)?.[0] ?? "");
  if (character === "") return;
  growCharacter({ state, escape, character, after: stateAt(at + Buffer.byteLength(character)) });
}

/** Adds the escapes of a whole character: by its number, and as an HTML entity. */
function growCharacter(way: { state: State; escape: State; character: string; after: State }): void {
  const { state, escape, character, after } = way;
  const code = character.codePointAt(0) as number;
  const [unit = 0, second] = Array.from({ length: character.length }, (_, at) => character.charCodeAt(at));
  const toUnit = (value: number): Word => [...toWord("u"), ...hexDigits(value.toString(16).padStart(4, "0"))];
  if (second === undefined) escape.lead(toUnit(unit), after);
  else {
    const again = new State();
    again.lead(toWord("\\"), again);
    again.lead(toUnit(second), after);
    escape.lead([...toUnit(unit), ...toWord("\\")], again);
  }
  escape.lead([...toWord("u{"), ...hexDigits(code.toString(16)), ...toWord("}")], after);
  const entity = new State();
  entity.lead(toWord("amp;"), entity);
  for (const name of ENTITIES[character] ?? []) entity.lead(toWord(`${name};`), after);
  const decimal = new State();
  decimal.lead(toWord("0"), decimal);
  decimal.lead(toWord(`${code};`), after);
  entity.lead(toWord("#"), decimal);
  const hex = new State();
  hex.lead(toWord("0"), hex);
  hex.lead([...hexDigits(code.toString(16)), ...toWord(";")], after);
  entity.lead([toBytes("#"), toBytes("xX")], hex);
  state.lead(toWord("&"), entity);
}

/**
 * Adds the base64 of a text in which the secret begins at this offset, modulo three. A character that shares bits with
 * the text around the secret has several possible values.
 */
function addBase64(start: State, bytes: Buffer, offset: number, placeholder: Buffer): void {
  const characters = toBase64Characters(bytes, offset);
  addForm(start, characters.length, placeholder, (state, at, stateAt) => {
    const possible = characters[at] as readonly number[];
    const next = stateAt(at + 1);
    state.lead([possible.flatMap((value) => toBytes(BASE64[value] as string))], next);
    if (possible.includes(62)) state.lead([...toWord("%2"), hexDigit(11)], next);
    if (possible.includes(63)) {
      state.lead([...toWord("%2"), hexDigit(15)], next);
      state.lead(toWord("\\/"), next);
    }
    if (at < LEAST_BROKEN) return;
    state.lead([toBytes("\r\n")], state);
    state.lead([toBytes("\\"), toBytes("rn")], state);
  });
}

function toBase64Characters(bytes: Buffer, offset: number): number[][] {
  const [begin, end] = [offset * 8, (offset + bytes.length) * 8];
  const characters: number[][] = [];
  for (let bit = begin - (begin % 6); bit < end; bit += 6) {
    let possible = [0];
    for (let at = bit; at < bit + 6; at++) {
      const isKnown = at >= begin && at < end;
      const byte = bytes[(at >> 3) - offset] as number;
      const bits = isKnown ? [(byte >> (7 - (at & 7))) & 1] : [0, 1];
      possible = possible.flatMap((value) => bits.map((one) => (value << 1) | one));
    }
    characters.push(possible);
  }
  return characters;
}

/** Both alphabets: the last two characters differ. */
const BASE64: readonly string[] = [
  ..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
  "+-",
  "/_",
];

const LETTERS: Readonly<Record<number, string>> = {
  0: "0",
  7: "a",
  8: "b",
  9: "t",
  10: "n",
  11: "v",
  12: "f",
  13: "r",
  27: "e",
};

const ENTITIES: Readonly<Record<string, readonly string[]>> = {
  "&": ["amp", "AMP"],
  "<": ["lt", "LT"],
  ">": ["gt", "GT"],
  '"': ["quot", "QUOT"],
  "'": ["apos"],
  "/": ["sol"],
  "+": ["plus"],
  "=": ["equals"],
  "\\": ["bsol"],
  "`": ["grave"],
  "\n": ["NewLine"],
  "\t": ["Tab"],
};

export function toJsonText(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

/** Escapes every byte but letters, digits and `-._~`. */
function toPercentText(text: string): string {
  return Buffer.from(text)
    .toString("latin1")
    .replace(
      /[^A-Za-z0-9\-._~]/g,
      (byte) => `%${byte.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`,
    );
}

function isContinuation(byte: number): boolean {
  return (byte & 0xc0) === 0x80;
}

function toWord(text: string): Word {
  return toBytes(text).map((byte) => [byte]);
}

function toBytes(text: string): number[] {
  return [...Buffer.from(text)];
}

function hexDigits(text: string): Word {
  return Array.from(text, (digit) => hexDigit(Number.parseInt(digit, 16)));
}

function hexDigit(value: number): number[] {
  const digit = value.toString(16);
  return toBytes(digit + digit.toUpperCase());
}
