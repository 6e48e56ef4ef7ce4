import { SluiceError } from "../contract/index.ts";

/** Files by their path, relative to wherever they go or come from. */
export type FileMap = Record<string, FileContent>;

/** What a file holds. */
export type FileContent = string | Uint8Array | ArrayBuffer;

export function toBytes(content: FileContent): Uint8Array {
  if (typeof content === "string") return new TextEncoder().encode(content);
  return content instanceof ArrayBuffer ? new Uint8Array(content) : content;
}

/** A path that stays below the folder that it is relative to, in one spelling; every other is refused. */
export function toInnerPath(path: string): string {
  const names = path.split("/").filter((name) => name !== "" && name !== ".");
  const leaves = path.startsWith("/") || path.includes("\0") || names.includes("..");
  if (!leaves && names.length > 0 && !path.endsWith("/")) return names.join("/");
  throw new SluiceError(
    "permission_denied",
    `${JSON.stringify(path)} is not the path of a file below the folder. Use a relative one without "..".`,
    { path },
  );
}
