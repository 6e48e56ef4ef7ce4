import { resolve } from "node:path";
import { SluiceError } from "../../contract/index.ts";
import type { Link } from "../backend/port.ts";

export const WORKSPACE = "/home/user/workspace";

/** The working directory and the files of a new sandbox. */
interface GivenFiles {
  readonly directory?: string;
  /** Files for `context/`. */
  readonly context: FileMap;
  readonly files: FileMap;
}

const FOLDERS = ["context", "scripts", "temp", "output"];

/** Creates the folders and writes the files of a new sandbox. */
export async function placeFiles(
  link: Link,
  id: string,
  { directory, context, files }: GivenFiles,
): Promise<void> {
  // A folder of the user's own gets none of these folders.
  if (hostFolder(directory) === undefined) {
    for (const name of FOLDERS) await link.files.mkdir(id, `${WORKSPACE}/${name}`);
  }
  const inner = innerFolder(directory);
  if (inner !== undefined) await link.files.mkdir(id, inner);
  await writeFiles(link, id, "context", context);
  await writeFiles(link, id, "", files);
}

/** Writes files below a folder of the workspace; "" is the workspace itself. */
export async function writeFiles(link: Link, id: string, folder: string, files: FileMap): Promise<void> {
  const root = folder === "" ? WORKSPACE : `${WORKSPACE}/${folder}`;
  const entries = Object.entries(files).map(([path, content]) => [toInnerPath(path), content] as const);
  for (const [path, content] of entries) await link.files.write(id, `${root}/${path}`, toBytes(content));
}

const INNER = /^(\/home\/user\/workspace|\/workspace)(\/|$)/;

/** The folder of this machine that becomes the workspace; undefined for a directory inside the sandbox. */
export function hostFolder(directory: string | undefined): string | undefined {
  return directory === undefined || INNER.test(directory) ? undefined : resolve(directory);
}

/** The in-sandbox path of a directory below the workspace; undefined for any other directory. */
export function innerFolder(directory: string | undefined): string | undefined {
  if (directory === undefined || !INNER.test(directory)) return undefined;
  const below = directory.replace(INNER, "").replace(/\/+$/, "");
  return below === "" ? undefined : `${WORKSPACE}/${below}`;
}

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
  const detail = `${JSON.stringify(path)} is not the path of a file below the folder. Use a relative one without "..".`;
  throw new SluiceError("permission_denied", detail, { path });
}
