import { type Omitted, stageWorktree } from "./stage.ts";
import { isObjectName } from "./head.ts";
import { withPrivateRepository } from "./privateRepository.ts";
import { toQuoted } from "./quote.ts";
import { Unavailable } from "./unavailable.ts";

const TIMEOUT_MS = 10_000;
const MAX_DIFF_BYTES = 16 * 1024 * 1024;

export interface WorkspaceDiffOptions {
  /** A commit or tree to compare with, by its full name; the commit that is checked out unless said otherwise. */
  readonly base?: string;
  /** Also look for the repository in the folders above. */
  readonly search?: boolean;
  /** Whether what is written in the folder may not be trusted to point elsewhere; it may not, unless said otherwise. */
  readonly confined?: boolean;
  /** Whose the folder is, where that is not the server's own user: git runs as they do. */
  readonly owner?: { readonly uid: number; readonly gid: number } | undefined;
  /** A folder for a private one that lives as long as the call; closed to whoever writes to the workspace. */
  readonly scratch?: string;
  readonly maxDiffBytes?: number;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  /** Told why there is no diff. */
  readonly explain?: (reason: string) => void;
}

export interface WorkspaceDiff {
  /** Empty where nothing changed. */
  readonly diff: string;
  /** Files whose content is left out for their size or because they cannot be read. */
  readonly omitted: readonly Omitted[];
  /** Whether it was longer and ends early, between two files. */
  readonly cut: boolean;
}

/**
 * The whole difference between a working tree and its commit, new files included, as `git diff` shows it. Nothing of the
 * repository is touched, nothing in it is run. Nothing where the folder is no repository or there is no git.
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
        const omitted = await stageWorktree(repository, { folder, signal, owner: options.owner });
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

/** Unlike its plumbing, it says nothing of files that were written anew with the same content. */
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
