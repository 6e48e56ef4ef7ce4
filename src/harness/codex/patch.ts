import type { ContentPart } from "../../contract/index.ts";
import { isRecord } from "../rpc.ts";

/** What a file change did to one file, with the text that it took away and put there. */
export function toFileRefs(changes: unknown): ContentPart[] {
  return (Array.isArray(changes) ? changes : []).flatMap((change: unknown): ContentPart[] => {
    if (!isRecord(change) || typeof change["path"] !== "string") return [];
    const { path, kind, diff } = change;
    const type = isRecord(kind) ? kind["type"] : kind;
    const action = type === "add" ? "write" : "patch";
    const text = typeof diff === "string" ? toDiff(path, type, diff) : undefined;
    const moved = isRecord(kind) && typeof kind["move_path"] === "string" ? kind["move_path"] : undefined;
    const refs: ContentPart[] = [
      { type: "file_ref", path, action, ...(text === undefined ? {} : { diff: text }) },
    ];
    if (moved !== undefined) refs.push({ type: "file_ref", path: moved, action: "write" });
    return refs;
  });
}

/** Codex gives the hunks of an update, and the bare content of a file that is added or deleted. */
function toDiff(path: string, type: unknown, diff: string): string {
  const name = path.replace(/^\/+/, "");
  if (type === "add") return `--- /dev/null\n+++ b/${name}\n${wholeHunk(diff, "+")}`;
  if (type === "delete") return `--- a/${name}\n+++ /dev/null\n${wholeHunk(diff, "-")}`;
  return diff.startsWith("--- ") ? diff : `--- a/${name}\n+++ b/${name}\n${diff}`;
}

function wholeHunk(content: string, sign: "+" | "-"): string {
  if (content === "") return "";
  const isEnded = content.endsWith("\n");
  const lines = (isEnded ? content.slice(0, -1) : content).split("\n");
  const count = lines.length === 1 ? "1" : `1,${lines.length}`;
  const range = sign === "+" ? `-0,0 +${count}` : `-${count} +0,0`;
  const body = lines.map((line) => `${sign}${line}\n`).join("");
  return `@@ ${range} @@\n${body}${isEnded ? "" : "\\ No newline at end of file\n"}`;
}
