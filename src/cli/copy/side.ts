import { CliFailure } from "../failure.ts";

export type Kind = "file" | "directory" | "symlink" | "other";

export interface Entry {
  readonly name: string;
  readonly kind: Kind;
  readonly size: number;
}

/** One end of a copy: folders of this machine, or of a sandbox. */
export interface Side {
  /** What a path that was named is, links followed; undefined where there is nothing. */
  kind(path: string): Promise<Exclude<Kind, "symlink"> | undefined>;
  size(path: string): Promise<number>;
  /** Links not followed. */
  list(path: string): Promise<Entry[]>;
  /** Files of any size: neither side holds one in memory. */
  read(path: string): Promise<AsyncIterable<Uint8Array>>;
  write(path: string, content: AsyncIterable<Uint8Array>): Promise<void>;
  /** Those above it too; no error where it is there. */
  mkdir(path: string): Promise<void>;
  /** For people. */
  show(path: string): string;
}

/** The path of what a folder holds. A name is one name: it never leads anywhere else. */
export function joinNames(folder: string, names: readonly string[]): string {
  for (const name of names) {
    if (name !== "" && name !== "." && name !== ".." && !/[/\0]/.test(name)) continue;
    throw new CliFailure(`${JSON.stringify(name)} is not the name of a file, so it was not copied.`);
  }
  if (names.length === 0) return folder;
  return [folder === "/" ? "" : folder.replace(/\/+$/, ""), ...names].join("/");
}

/** The last name of a path, or undefined where that says nothing: "", ".", "a/..", "/". */
export function lastName(path: string): string | undefined {
  const name = path.replace(/\/+$/, "").split("/").at(-1) ?? "";
  return ["", ".", ".."].includes(name) ? undefined : name;
}
