import { CliFailure } from "../failure.ts";
import { joinNames, lastName, type Side } from "./side.ts";

/** All that is to be copied, known before anything is written: a folder may be copied into itself. */
export interface Plan {
  readonly from: string;
  readonly to: string;
  /** As the names that lead there from `from`; those above come first. */
  readonly folders: readonly (readonly string[])[];
  readonly files: readonly { readonly names: readonly string[]; readonly size: number }[];
  readonly skipped: readonly Skipped[];
}

export interface Skipped {
  readonly path: string;
  readonly reason: string;
}

export interface PlanOptions {
  readonly signal: AbortSignal;
  readonly onFound?: (files: number) => void;
}

export async function planCopy(
  source: { side: Side; path: string },
  target: { side: Side; path: string },
  options: PlanOptions,
): Promise<Plan> {
  const [kind, there] = await Promise.all([source.side.kind(source.path), target.side.kind(target.path)]);
  const shown = source.side.show(source.path);
  if (!kind) throw new CliFailure(`There is no ${shown}.`);
  if (kind === "other") throw new CliFailure(`${shown} is neither a file nor a folder.`);
  const name = lastName(source.path);
  const into = (): string => (name === undefined ? target.path : joinNames(target.path, [name]));
  if (kind === "file") {
    const to = there === "directory" || target.path.endsWith("/") ? into() : target.path;
    const size = await source.side.size(source.path);
    return { from: source.path, to, folders: [], files: [{ names: [], size }], skipped: [] };
  }
  if (there !== undefined && there !== "directory")
    throw new CliFailure(
      `${target.side.show(target.path)} is not a folder, so the folder ${shown} cannot go there.`,
    );
  const to = there === "directory" ? into() : target.path;
  return { from: source.path, to, ...(await walk(source, options)) };
}

async function walk(
  { side, path: root }: { side: Side; path: string },
  { signal, onFound }: PlanOptions,
): Promise<Pick<Plan, "folders" | "files" | "skipped">> {
  const folders: (readonly string[])[] = [[]];
  const files: Plan["files"][number][] = [];
  const skipped: Skipped[] = [];
  for (let index = 0; index < folders.length; index += 1) {
    signal.throwIfAborted();
    const above = folders[index] ?? [];
    for (const { name, kind, size } of await side.list(joinNames(root, above))) {
      const names = [...above, name];
      const path = joinNames(root, names);
      if (kind === "directory") folders.push(names);
      else if (kind === "file") files.push({ names, size });
      else {
        const reason = kind === "symlink" ? "a link" : "neither a file nor a folder";
        skipped.push({ path: side.show(path), reason });
      }
    }
    onFound?.(files.length);
  }
  return { folders, files, skipped };
}
