import type { Scope } from "./agent.ts";

/** The count of deltas after which the agent waits for its reader. */
const DELTAS_PER_DRAIN = 256;

/** Streams a message or a thought in deltas that concatenate to its text. */
export async function speak(
  scope: Scope,
  what: "text" | "thinking",
  text: string,
  options: { chunks?: number } = {},
): Promise<void> {
  const id = scope.agent.ids.next(what === "text" ? "msg" : "tht");
  scope.produce(0);
  scope.emit({ type: `${what}.started`, id, ...scope.parent });
  let said = 0;
  let deltas = 0;
  for (const delta of options.chunks === undefined ? words(text) : pieces(text, options.chunks)) {
    if (scope.signal.aborted) break;
    scope.emit({ type: `${what}.delta`, id, text: delta });
    said += delta.length;
    deltas += 1;
    if (deltas % DELTAS_PER_DRAIN === 0) await scope.agent.output.drained();
  }
  const whole = text.slice(0, said);
  scope.produce(whole.length);
  if (what === "text") scope.lastText = whole;
  scope.emit({ type: `${what}.ended`, id, text: whole });
  scope.signal.throwIfAborted();
}

/** Characters per write. */
const WRITE_SIZE = 64 * 1024;

/** Streams one message of many small deltas, in large writes, as fast as the pipe takes them. */
export async function flood(scope: Scope, options: { events: number; bytes: number }): Promise<void> {
  const { output, ids } = scope.agent;
  const id = ids.next("msg");
  scope.produce(0);
  scope.emit({ type: "text.started", id, ...scope.parent });
  const head = `{"type":"text.delta","id":${JSON.stringify(id)},"text":"`;
  const texts: string[] = [];
  for (let done = 0; done < options.events && !scope.signal.aborted;) {
    let lines = "";
    let text = "";
    for (; done < options.events && lines.length < WRITE_SIZE; done++) {
      const delta = `${done} `.padEnd(options.bytes, "~").slice(0, options.bytes);
      lines += `${head}${delta}"}\n`;
      text += delta;
    }
    output.text(lines);
    texts.push(text);
    await output.drained();
  }
  scope.produce(texts.reduce((sum, text) => sum + text.length, 0));
  scope.lastText = "";
  if (!scope.muted) output.longLine({ type: "text.ended", id }, "text", texts);
  scope.signal.throwIfAborted();
}

/** One delta per word, with the white space before it; the last has the white space after it too. */
function* words(text: string): Generator<string> {
  const word = /\s*\S+/g;
  const end = text.trimEnd().length;
  if (end === 0) {
    if (text !== "") yield text;
    return;
  }
  while (word.lastIndex < end) {
    const from = word.lastIndex;
    word.exec(text);
    yield text.slice(from, word.lastIndex < end ? word.lastIndex : text.length);
  }
}

/** A text in `count` pieces, or fewer if it is shorter. No piece is empty, and no surrogate pair is cut. */
function* pieces(text: string, count: number): Generator<string> {
  const units = /[\ud800-\udfff]/.test(text) ? Array.from(text) : text;
  const wanted = Math.min(count, units.length);
  for (let index = 0; index < wanted; index++) {
    const piece = units.slice(
      Math.floor((index * units.length) / wanted),
      Math.floor(((index + 1) * units.length) / wanted),
    );
    yield typeof piece === "string" ? piece : piece.join("");
  }
}
