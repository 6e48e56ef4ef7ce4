import { SluiceClientError } from "../../client/index.ts";
import { SluiceError } from "../../contract/index.ts";
import { CliFailure } from "../failure.ts";
import type { Plan, Skipped } from "./plan.ts";
import { joinNames, type Side } from "./side.ts";

const AT_ONCE = 4;

export interface Copied {
  files: number;
  folders: number;
  bytes: number;
  failed: Skipped[];
}

/** Carries a plan out. What concerns one file alone is noted, and the others are copied all the same. */
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
      if (plan.files.length === 1 || !isOfOneFile(error)) throw error;
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
  // All of them have let go before the failure of one is told.
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

const SYSTEM = new Set(["ENOENT", "ENOTDIR", "EISDIR", "EACCES", "EPERM", "ENXIO", "ERR_FS_FILE_TOO_LARGE"]);
const OURS = new Set(["file_not_found", "permission_denied", "invalid_request", "too_large"]);

function isOfOneFile(error: unknown): boolean {
  if (error instanceof CliFailure) return true;
  if (error instanceof SluiceError || error instanceof SluiceClientError) return OURS.has(error.code);
  return SYSTEM.has((error as NodeJS.ErrnoException).code ?? "");
}
