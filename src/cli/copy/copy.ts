import { SluiceClientError } from "../../client/index.ts";
import { SluiceError } from "../../contract/index.ts";
import { CliFailure } from "../terminal/failure.ts";
import { joinNames, lastName, type Side } from "./sides.ts";

const AT_ONCE = 4;

export interface Copied {
  files: number;
  folders: number;
  bytes: number;
  failed: Skipped[];
}

/** Executes a plan. The failure of one file is noted and does not stop the others. */
export async function copyPlanned(
  plan: Plan,
  { source, target }: { source: Side; target: Side },
  options: { signal: AbortSignal; onProgress: (copied: Copied) => void },
): Promise<Copied> {
  const { signal, onProgress } = options;
  const copied: Copied = { files: 0, folders: 0, bytes: 0, failed: [] };
  for (const names of plan.folders) {
    signal.throwIfAborted();
    await target.mkdir(joinNames(plan.to, names));
    copied.folders += 1;
  }
  const copyFile = async (names: readonly string[]): Promise<void> => {
    const from = joinNames(plan.from, names);
    try {
      const content = await source.read(from);
      await target.write(
        joinNames(plan.to, names),
        counted(content, (bytes) => (copied.bytes += bytes)),
      );
      copied.files += 1;
    } catch (error) {
      if (plan.files.length === 1 || !isAboutOneFile(error)) throw error;
      copied.failed.push({ path: source.show(from), reason: (error as Error).message });
    }
  };
  const left = plan.files.values();
  const stop = new AbortController();
  const work = async (): Promise<void> => {
    for (const { names } of left) {
      signal.throwIfAborted();
      if (stop.signal.aborted) return;
      await copyFile(names);
      onProgress(copied);
    }
  };
  const workers = Array.from({ length: AT_ONCE }, () =>
    work().catch((error: unknown) => {
      stop.abort();
      throw error;
    }),
  );
  // All workers end before a failure is thrown.
  const ends = await Promise.allSettled(workers);
  const failed = ends.find((end) => end.status === "rejected");
  if (failed) throw failed.reason;
  return copied;
}

async function* counted(
  content: AsyncIterable<Uint8Array>,
  count: (bytes: number) => void,
): AsyncGenerator<Uint8Array, void> {
  for await (const chunk of content) {
    count(chunk.length);
    yield chunk;
  }
}

const SYSTEM_CODES = new Set([
  "ENOENT",
  "ENOTDIR",
  "EISDIR",
  "EACCES",
  "EPERM",
  "ENXIO",
  "ERR_FS_FILE_TOO_LARGE",
]);
const OUR_CODES = new Set(["file_not_found", "permission_denied", "invalid_request", "too_large"]);

/** Whether the error is about one file, so that the other files can still be copied. */
function isAboutOneFile(error: unknown): boolean {
  if (error instanceof CliFailure) return true;
  if (error instanceof SluiceError || error instanceof SluiceClientError) return OUR_CODES.has(error.code);
  return SYSTEM_CODES.has((error as NodeJS.ErrnoException).code ?? "");
}

/** The files and folders to copy. They are listed before any write, because a folder may be copied into itself. */
export interface Plan {
  readonly from: string;
  readonly to: string;
  /** Each folder as the names below `from`; parents come first. */
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
  const [kind, targetKind] = await Promise.all([
    source.side.kind(source.path),
    target.side.kind(target.path),
  ]);
  const shown = source.side.show(source.path);
  if (!kind) throw new CliFailure(`There is no ${shown}.`);
  if (kind === "other") throw new CliFailure(`${shown} is neither a file nor a folder.`);
  const name = lastName(source.path);
  const into = (): string => (name === undefined ? target.path : joinNames(target.path, [name]));
  if (kind === "file") {
    const to = targetKind === "directory" || target.path.endsWith("/") ? into() : target.path;
    const size = await source.side.size(source.path);
    return { from: source.path, to, folders: [], files: [{ names: [], size }], skipped: [] };
  }
  if (targetKind !== undefined && targetKind !== "directory")
    throw new CliFailure(
      `${target.side.show(target.path)} is not a folder, so the folder ${shown} cannot go there.`,
    );
  const to = targetKind === "directory" ? into() : target.path;
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
