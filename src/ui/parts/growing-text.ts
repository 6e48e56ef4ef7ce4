import { Lexer, type Token } from "marked";

/** A paragraph that grows beyond this is shown in parts until its text is whole, so that the browser lays out one part. */
const LONG_BLOCK = 4_000;

/** The blocks of a text that grows at its end: only the last ones are read again. */
export class GrowingText {
  #text = "";
  /** How much of the text will not change its blocks any more, and those blocks. */
  #settled = 0;
  #blocks: Token[] = [];

  read(given: string): Token[] {
    // The lexer counts each of these line ends as one character. A half of one waits for its other half.
    const text = given.replace(/\r$/, "").replaceAll(/\r\n?/g, "\n");
    if (!text.startsWith(this.#text)) [this.#settled, this.#blocks] = [0, []];
    this.#text = text;
    const tail = split(text.slice(this.#settled));
    while (tail.length > 2 || (tail.length > 1 && tail[0]?.type === "space")) this.#settle(tail.shift());
    const [last] = tail;
    // Its end is settled by nothing but a blank line, which may not come for long.
    if (tail.length === 1 && last?.type === "paragraph" && last.raw.length > LONG_BLOCK) {
      const end = last.raw.lastIndexOf(" ", LONG_BLOCK) + 1 || lastWhole(last.raw, LONG_BLOCK);
      this.#settle(toParagraph(last.raw.slice(0, end)));
      tail[0] = toParagraph(last.raw.slice(end));
    }
    return [...this.#blocks, ...tail].filter(({ type }) => type !== "space");
  }

  #settle(token: Token | undefined): void {
    if (!token) return;
    this.#settled += token.raw.length;
    this.#blocks.push(token);
  }
}

/** A part of a paragraph, whatever it begins with. */
function toParagraph(raw: string): Token {
  const whole = { type: "paragraph", raw, text: raw };
  try {
    return { ...whole, tokens: new Lexer({ gfm: true }).inlineTokens(raw) };
  } catch {
    return { ...whole, tokens: [{ type: "text", raw, text: raw }] };
  }
}

/** The place, or the one after it: a character of two units stays whole. */
function lastWhole(text: string, place: number): number {
  return (text.codePointAt(place - 1) ?? 0) > 0xffff ? place + 1 : place;
}

/** A text whose nesting is too deep for the lexer is shown as it was written. */
export function split(text: string): Token[] {
  try {
    return new Lexer({ gfm: true }).lex(text);
  } catch {
    return [{ type: "paragraph", raw: text, text, tokens: [{ type: "text", raw: text, text }] }];
  }
}
