import { SluiceError } from "../../contract/index.ts";

/**
 * Files by relative path.
 *
 * @example
 * const files: FileMap = { "data/input.csv": "a,b\n", "logo.png": new Uint8Array([137, 80, 78, 71]) };
 * await sluice.uploadFiles(files);
 */
export type FileMap = Record<string, FileContent>;

/**
 * The content of a file.
 *
 * @example
 * const content: FileContent | undefined = (await sluice.getOutputFiles()).files["report.md"];
 */
export type FileContent = string | Uint8Array | ArrayBuffer;

export function toBytes(content: FileContent): Uint8Array {
  if (typeof content === "string") return new TextEncoder().encode(content);
  return content instanceof ArrayBuffer ? new Uint8Array(content) : content;
}

/** Normalises a relative path; refuses one that leads out of its folder. */
export function toInnerPath(path: string): string {
  const names = path.split("/").filter((name) => name !== "" && name !== ".");
  const isOutside = path.startsWith("/") || path.includes("\0") || names.includes("..");
  if (!isOutside && names.length > 0 && !path.endsWith("/")) return names.join("/");
  throw new SluiceError(
    "permission_denied",
    `${JSON.stringify(path)} is not the path of a file below the folder. Use a relative one without "..".`,
    { path },
  );
}
