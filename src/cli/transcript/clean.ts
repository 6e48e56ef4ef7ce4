// oxlint-disable-next-line no-control-regex
const SEQUENCES = /\u001B(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001B]*(?:\u0007|\u001B\\)?|[@-Z\\^_])/g;
// oxlint-disable-next-line no-control-regex
const CONTROLS = /[\u0000-\u0008\u000B-\u001F\u007F-\u009F\u202A-\u202E\u2066-\u2069]/g;

/** What an agent wrote must not steer the terminal: no escape sequences, no control characters but newline and tab. */
export function toPrintable(text: string): string {
  return text.replaceAll(SEQUENCES, "").replaceAll(/\r\n?/g, "\n").replaceAll(CONTROLS, "");
}

/** Text of any shape on one line, cut to `width` characters. */
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
  // Not through a surrogate pair: half of one prints as a replacement character.
  return `${line.slice(0, Math.max(0, width - 1)).replace(/[\uD800-\uDBFF]$/, "")}…`;
}
