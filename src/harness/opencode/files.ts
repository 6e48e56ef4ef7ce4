import type { ContentPart } from "../../contract/index.ts";
import { isRecord } from "../rpc.ts";
import type { Properties } from "./events.ts";

type FileRef = Extract<ContentPart, { type: "file_ref" }>;

/** The files that a tool has read or written. */
export function fileRefs(tool: string, input: unknown, metadata: Properties): FileRef[] {
  const path = isRecord(input) ? input["filePath"] : undefined;
  if (Array.isArray(metadata["files"])) return metadata["files"].filter(isRecord).flatMap(toPatched);
  if (typeof path !== "string") return [];
  if (tool === "read") return [{ type: "file_ref", path, action: "read" }];
  if (tool === "write") return [{ type: "file_ref", path, action: "write" }];
  const { filediff } = metadata;
  const diff = metadata["diff"] ?? (isRecord(filediff) ? filediff["patch"] : undefined);
  return tool === "edit" || tool === "multiedit" ? [toPatch(path, diff)] : [];
}

/** One of several files of a patch. */
function toPatched({ filePath, movePath, file, type, diff, patch }: Properties): FileRef[] {
  const path = [movePath, filePath, file].find((path) => typeof path === "string");
  if (typeof path !== "string") return [];
  return type === "add" ? [{ type: "file_ref", path, action: "write" }] : [toPatch(path, diff ?? patch)];
}

function toPatch(path: string, diff: unknown): FileRef {
  if (typeof diff !== "string" || diff === "") return { type: "file_ref", path, action: "patch" };
  // Before the diff itself stand an index line and a rule.
  return { type: "file_ref", path, action: "patch", diff: diff.replace(/^Index: .*\n=+\n/, "") };
}
