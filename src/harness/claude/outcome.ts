import type { ContentPart } from "../../contract/index.ts";
import type { ToolOutcome } from "../scribe.ts";
import { type Fields, toFields, toList, toText } from "./fields.ts";

/** What a tool came to: its words, the files that it touched, the images that it gave. */
export function toOutcome(
  block: Fields,
  { name, result, path }: { name: string; result: unknown; path: string | undefined },
): ToolOutcome {
  const failed = block["is_error"] === true;
  const output = toOutput(block["content"]);
  const content: ContentPart[] = [];
  const file = failed ? undefined : toFileRef(name, toFields(result), path);
  if (file) content.push(file);
  for (const image of toList(block["content"]))
    if (image["type"] === "image") content.push(...toImage(image));
  const code = failed && name === "Bash" ? /^(?:Error: )?Exit code (\d+)/.exec(output)?.[1] : undefined;
  if (code !== undefined) content.push({ type: "json", json: { exit_code: Number(code) } });
  return { output, failed, content };
}

export function toOutput(content: unknown): string {
  if (typeof content === "string") return content;
  return toList(content)
    .flatMap((part) => {
      if (part["type"] === "text") return [toText(part["text"])];
      return part["type"] === "tool_reference" ? [toText(part["tool_name"])] : [];
    })
    .join("\n");
}

function toImage(block: Fields): ContentPart[] {
  const source = toFields(block["source"]);
  const mime = toText(source["media_type"]) || "image/png";
  const data = toText(source["data"]);
  if (data !== "") return [{ type: "image", path: `data:${mime};base64,${data}`, mime }];
  const url = toText(source["url"]);
  return url === "" ? [] : [{ type: "image", path: url, mime }];
}

const ACTIONS: Readonly<Record<string, "read" | "write" | "patch">> = {
  Read: "read",
  Write: "write",
  Edit: "patch",
  MultiEdit: "patch",
  NotebookEdit: "patch",
};

function toFileRef(name: string, result: Fields, given: string | undefined): ContentPart | undefined {
  const action = Object.hasOwn(ACTIONS, name) ? ACTIONS[name] : undefined;
  const path = toText(result["filePath"] ?? result["notebook_path"]) || given;
  if (!action || path === undefined) return undefined;
  const hunks = toList(result["structuredPatch"]);
  return { type: "file_ref", path, action, ...(hunks.length === 0 ? {} : { diff: toDiff(path, hunks) }) };
}

function toDiff(path: string, hunks: readonly Fields[]): string {
  const name = path.replace(/^\//, "");
  const bodies = hunks.map((hunk) => {
    const range = (side: "old" | "new"): string =>
      `${Number(hunk[`${side}Start`])},${Number(hunk[`${side}Lines`])}`;
    const lines = Array.isArray(hunk["lines"]) ? hunk["lines"].map(String) : [];
    return [`@@ -${range("old")} +${range("new")} @@`, ...lines, ""].join("\n");
  });
  return `--- a/${name}\n+++ b/${name}\n${bodies.join("")}`;
}
