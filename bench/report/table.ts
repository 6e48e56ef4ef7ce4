import type { Row } from "./row.ts";

const HEADINGS = ["", "what", "value", "spread", "against", "ratio", "target", ""];

/** The report as plain lines of aligned columns, with the notes below. */
export function toTable(rows: readonly Row[]): string {
  const notes: string[] = [];
  const cells = rows.map((row) => {
    const mark = noteMark(row, notes);
    return [
      row.id,
      row.what,
      `${toFigure(row.value)} ${row.unit}`.trim(),
      row.spread ? `${toFigure(row.spread[0])}–${toFigure(row.spread[1])}` : "",
      row.against ? `${toFigure(row.against.value)} ${row.against.what}` : "",
      row.ratio === undefined ? "" : `${toFigure(row.ratio)}×`,
      row.target ?? "",
      `${row.verdict ?? ""}${mark}`,
    ];
  });
  const all = [HEADINGS, ...cells];
  const widths = HEADINGS.map((_, column) => Math.max(...all.map((line) => line[column]?.length ?? 0)));
  const lines = all.map((line) =>
    line
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd(),
  );
  lines.splice(1, 0, widths.map((width) => "-".repeat(width)).join("  "));
  return [...lines, ...(notes.length > 0 ? ["", ...notes] : [])].join("\n");
}

function noteMark(row: Row, notes: string[]): string {
  const texts = [row.note, row.against?.note].filter((text) => text !== undefined);
  const marks = texts.map((text) => {
    const known = notes.findIndex((note) => note.endsWith(`] ${text}`));
    const number = known === -1 ? notes.push(`[${notes.length + 1}] ${text}`) : known + 1;
    return ` [${number}]`;
  });
  return marks.join("");
}

function toFigure(value: number): string {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1000) return Math.round(value).toLocaleString("en-US");
  if (size >= 100 || Number.isInteger(value)) return String(Math.round(value));
  return value.toPrecision(size >= 10 ? 3 : size >= 1 ? 2 : 2);
}
