import { toQuoted } from "./git.ts";
import { withPrivateRepository } from "./private-repository.ts";
import { isObjectName, Unavailable } from "./repository.ts";
import { indexWorktree, type Omitted } from "./worktree-index.ts";

const TIMEOUT_MS = 10_000;
const MAX_DIFF_BYTES = 16 * 1024 * 1024;

export interface WorkspaceDiffOptions {
  /** A commit or tree to compare with, by its full name; by default the commit that is checked out. */
  readonly base?: string;
  /** Also look for the repository in the folders above. */
  readonly search?: boolean;
  /** Whether the folder's content is untrusted and may not point elsewhere; true by default. */
  readonly confined?: boolean;
  /** The owner of the folder, where that is not the server's own user: git runs as the owner. */
  readonly owner?: { readonly uid: number; readonly gid: number } | undefined;
  /** The parent of the private folder of the call. The writer of the workspace must not reach it. */
  readonly scratch?: string;
  readonly maxDiffBytes?: number;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  /** Called with the reason where there is no diff. */
  readonly explain?: (reason: string) => void;
}

export interface WorkspaceDiff {
  /** Empty where nothing changed. */
  readonly diff: string;
  /** Files without content here: too large, or unreadable. */
  readonly omitted: readonly Omitted[];
  /** Whether the diff was too long and ends early, between two files. */
  readonly cut: boolean;
}

/**
 * The whole difference between a working tree and its commit, new files included, as `git diff` shows it. It changes
 * nothing in the repository and runs none of its programs. Undefined where the folder is no repository, or without git.
 */
export async function workspaceDiff(
  folder: string,
  options: WorkspaceDiffOptions = {},
): Promise<WorkspaceDiff | undefined> {
  const { base, search = false, confined = true, maxDiffBytes = MAX_DIFF_BYTES } = options;
  const timeout = AbortSignal.timeout(options.timeoutMs ?? TIMEOUT_MS);
  const signal = options.signal ? AbortSignal.any([timeout, options.signal]) : timeout;
  try {
    return await withPrivateRepository(
      folder,
      { search, confined, signal, scratch: options.scratch, owner: options.owner },
      async (repository) => {
        const from = base ?? repository.head;
        if (!isObjectName(from)) throw new Unavailable(`${from} is not the name of a commit`);
        const omitted = await indexWorktree(repository, { folder, signal, owner: options.owner });
        const compared = await repository.read([...COMPARE, ...(search ? ["--relative"] : []), from, "--"], {
          maxBytes: maxDiffBytes,
        });
        if (compared.code !== 0 && !compared.cut)
          throw new Unavailable(`git failed: ${compared.stderr.trim()}`);
        const text = compared.stdout.toString("utf8");
        const shown = compared.cut ? toWholeFiles(text, maxDiffBytes) : text;
        return { diff: shown + omitted.map(toNote).join(""), omitted, cut: compared.cut };
      },
    );
  } catch (error) {
    options.signal?.throwIfAborted();
    options.explain?.(toReason(error));
    return undefined;
  }
}

/** `diff`, not `diff-index`: it leaves out files that were written again with the same content. */
const COMPARE = [
  "diff",
  "--patch",
  "--find-renames",
  "--no-color",
  "--no-ext-diff",
  "--no-textconv",
  "--ignore-submodules=dirty",
  "--submodule=short",
];

function toWholeFiles(text: string, limit: number): string {
  const end = text.lastIndexOf("\ndiff --git ") + 1;
  return `${text.slice(0, end)}# The rest is left out: the diff is longer than ${limit} bytes.\n`;
}

function toNote({ path, isNew, reason }: Omitted): string {
  const [before, after] = [toQuoted(`a/${path}`), toQuoted(`b/${path}`)];
  const header = `diff --git ${before} ${after}\n`;
  return `${header}Binary files ${isNew ? "/dev/null" : before} and ${after} differ\n# ${reason}\n`;
}

function toReason(error: unknown): string {
  if (error instanceof Unavailable) return error.message;
  if (error instanceof Error && error.name === "TimeoutError") return "git took too long";
  return error instanceof Error ? error.message : String(error);
}
