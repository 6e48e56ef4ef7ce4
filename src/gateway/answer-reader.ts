import { StringDecoder } from "node:string_decoder";
import { type AnswerFacts, asObject, type Wire } from "./wire.ts";
import { EventStreamReader } from "./wires/event-stream.ts";

/** A longer event or answer is not read. It passes all the same. */
const LONGEST_TEXT = 16 * 1024 * 1024;

/** Reads an answer while it passes. It never throws, whatever the answer holds. */
export class AnswerReader {
  readonly #wire: Wire;
  readonly #isStream: boolean;
  readonly #decoder = new StringDecoder("utf8");
  #facts: AnswerFacts = {};
  /** The pieces of the line that has not ended. */
  #rest: string[] = [];
  #restLength = 0;
  #data: string[] = [];
  #length = 0;
  #isTooLong = false;
  #spoken = 0;
  #frames: EventStreamReader | undefined;

  constructor(wire: Wire, contentType: string | undefined) {
    this.#wire = wire;
    this.#isStream = /^text\/event-stream\b/i.test(contentType ?? "");
    if (/^application\/vnd\.amazon\.eventstream\b/i.test(contentType ?? ""))
      this.#frames = new EventStreamReader();
  }

  /** The characters of the answer so far: words, thoughts and arguments of calls. */
  get spoken(): number {
    return this.#spoken;
  }

  get facts(): AnswerFacts {
    return this.#facts;
  }

  write(chunk: Buffer): void {
    if (this.#frames !== undefined) {
      for (const event of this.#frames.write(chunk)) this.#read(event);
      return;
    }
    const text = this.#decoder.write(chunk);
    if (this.#isStream) this.#readLines(text);
    else this.#keep(text);
  }

  end(): void {
    if (this.#frames !== undefined) return;
    const text = this.#decoder.end();
    if (!this.#isStream) {
      this.#keep(text);
      if (!this.#isTooLong) this.#readWhole(this.#data.join(""));
      return;
    }
    // A stream may end without the blank line after its last event.
    this.#readLines(`${text}\n\n`);
  }

  #keep(text: string): void {
    // An empty line counts too: there may be any number of them.
    this.#length += text.length + 1;
    this.#isTooLong ||= this.#length > LONGEST_TEXT;
    if (this.#isTooLong) this.#data = [];
    else this.#data.push(text);
  }

  /** Gemini without `alt=sse` sends its stream as one list. */
  #readWhole(text: string): void {
    const value = parse(text);
    for (const event of Array.isArray(value) ? value : [value]) this.#read(event);
  }

  /** Server-sent events: lines end with CR, LF or both, and a blank line ends an event. */
  #readLines(text: string): void {
    // A long line in small pieces would be joined and searched again with each of them.
    if (this.#rest.at(-1)?.endsWith("\r") !== true && !/[\r\n]/.test(text)) return this.#keepRest(text);
    const whole = [...this.#rest.splice(0), text].join("");
    this.#restLength = 0;
    const lines = whole.split(/\r\n|\n|\r(?!$)/);
    const rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line === "") this.#endEvent();
      else if (line.startsWith("data:")) this.#keep(line.slice(line[5] === " " ? 6 : 5));
    }
    this.#keepRest(rest);
  }

  #keepRest(text: string): void {
    if (text === "") return;
    this.#rest.push(text);
    this.#restLength += text.length;
    if (this.#restLength <= LONGEST_TEXT) return;
    this.#isTooLong = true;
    [this.#rest, this.#restLength] = [[], 0];
  }

  #endEvent(): void {
    const text = this.#isTooLong ? "" : this.#data.join("\n");
    this.#data = [];
    this.#length = 0;
    this.#isTooLong = false;
    if (text === "[DONE]") this.#facts = { ...this.#facts, isDone: true };
    else if (text !== "") this.#read(parse(text));
  }

  #read(event: unknown): void {
    if (this.#isStream || this.#frames !== undefined) this.#spoken += countSpoken(event, 0);
    this.#facts = this.#wire.readAnswer(this.#facts, asObject(event));
  }
}

/** The fields of streamed events that hold parts of the answer, in all wires. */
const SPOKEN = new Set(["text", "content", "delta", "partial_json", "thinking", "arguments", "refusal"]);
/** The whole answer again, at the end of a stream or of a part of it. */
const REPEATED = new Set(["response", "item", "part", "message", "usage"]);

function countSpoken(value: unknown, depth: number): number {
  if (typeof value !== "object" || value === null || depth > 6) return 0;
  const type = (value as { type?: unknown }).type;
  if (typeof type === "string" && type.endsWith(".done")) return 0;
  let sum = 0;
  for (const [name, part] of Object.entries(value)) {
    if (typeof part === "string") sum += SPOKEN.has(name) ? part.length : 0;
    else if (!REPEATED.has(name)) sum += countSpoken(part, depth + 1);
  }
  return sum;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
