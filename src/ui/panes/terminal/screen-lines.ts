/* oxlint-disable no-control-regex -- control characters are what is removed here */
import type { RowView } from "../../log/protocol.ts";
import { paint, type Piece } from "../../parts/terminal-text.ts";
import { describeTool } from "../../transcript/tool-words.ts";

/** One line of the terminal. */
export interface ScreenLine {
  readonly key: string;
  /** The event of its command. */
  readonly sequence: number;
  readonly kind: "prompt" | "output" | "note";
  readonly pieces: readonly Piece[];
}

/** Lines of one command that are kept; the first ones are left out. */
const MAX_LINES = 2_000;

/** A command with its output, as a terminal would show it. */
export function toScreenLines(row: RowView, words: string): ScreenLine[] {
  const { sequence } = row;
  const line = (kind: ScreenLine["kind"], index: number, pieces: readonly Piece[]): ScreenLine => ({
    key: `${sequence}:${kind}:${index}`,
    sequence,
    kind,
    pieces,
  });
  const lines = [
    line("prompt", 0, [plain(titleOf(row)), { text: words, classes: row.failed ? "error" : "muted" }]),
  ];
  const output = paint(row.output ?? "");
  // The end of a command's output is kept, and the beginning of a tool's.
  const note =
    row.cut === undefined ? [] : [line("note", 1, [plain(`… ${row.cut} more characters are in the log`)])];
  if (row.kind === "command") lines.push(...note);
  const left = output.length - MAX_LINES;
  if (left > 0) lines.push(line("note", 0, [plain(`… ${left} lines before are in the log`)]));
  output.slice(-MAX_LINES).forEach((pieces, index) => lines.push(line("output", index, pieces)));
  if (row.kind !== "command") lines.push(...note);
  return lines;
}

function plain(text: string): Piece {
  return { text, classes: "" };
}

export function titleOf(row: RowView): string {
  const title =
    row.kind === "command" ? (row.name ?? "") : describeTool(row.name ?? "", row.input ?? "").title;
  return removeControls(title.replaceAll(/\s+/g, " ")).slice(0, 400);
}

function removeControls(text: string): string {
  return text.replaceAll(
    /[\u0000-\u0008\u000B-\u001F\u007F-\u009F\u200E\u200F\u202A-\u202E\u2066-\u2069]/g,
    "",
  );
}
