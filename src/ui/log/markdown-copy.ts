import type { RowView } from "./protocol.ts";

/** A part of the transcript as markdown, for the clipboard. */
export function toMarkdown(rows: readonly RowView[]): string {
  return `${rows.map(withRest).filter(Boolean).join("\n\n")}\n`;
}

/** A very long text is in the log alone, and its copy says so. */
function withRest(row: RowView): string {
  const rest = row.cut ? `… ${row.cut.toLocaleString("en")} more characters are in the log.` : "";
  return [toBlock(row), rest].filter(Boolean).join("\n\n");
}

function toBlock(row: RowView): string {
  switch (row.kind) {
    case "turn":
      return `## Turn ${row.turn?.index ?? ""}`;
    case "message":
      return row.role === "user" ? `**You:** ${row.text ?? ""}` : (row.text ?? "");
    case "thought":
      return quote(row.text ?? "");
    case "tool":
      return [`\`${row.name}\` ${row.input ?? ""}`, fence(row.output ?? ""), ...(row.diffs ?? []).map(toDiff)]
        .filter(Boolean)
        .join("\n\n");
    case "command":
      return fence(`$ ${row.name}\n${row.output ?? ""}`);
    case "diff":
      return (row.diffs ?? []).map(toDiff).join("\n\n");
    case "plan":
      return (row.plan ?? [])
        .map(({ content, status }) => `- [${status === "completed" ? "x" : " "}] ${content}`)
        .join("\n");
    case "ask":
      return `> ${row.ask?.kind}: ${row.ask?.prompt} → ${row.ask?.answer ?? "open"}`;
    case "error":
      return quote(row.data ?? "");
    default:
      return row.text ?? "";
  }
}

function toDiff({ diff }: { diff: string }): string {
  return fence(diff, "diff");
}

/** A fence longer than any in the text. */
function fence(text: string, language = ""): string {
  if (text === "") return "";
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([run]) => run.length));
  const marks = "`".repeat(longest + 1);
  return `${marks}${language}\n${text.replace(/\n$/, "")}\n${marks}`;
}

function quote(text: string): string {
  return text
    .split("\n")
    .map((line) => `> ${line}`)
    .join("\n");
}
