import type { Owner } from "../host/owner.ts";
import { withPrivateRepository } from "./privateRepository.ts";

const TIMEOUT_MS = 5_000;

/** A file as the commit that is checked out has it; nothing where there is none, or none that is known. */
export async function readHeadFile(
  folder: string,
  path: string,
  options: { maxBytes: number; confined?: boolean; owner?: Owner | undefined },
): Promise<Buffer | undefined> {
  const { maxBytes, confined = true, owner } = options;
  const find = { confined, owner, signal: AbortSignal.timeout(TIMEOUT_MS) };
  return withPrivateRepository(folder, find, async ({ head, read }) => {
    const { code, stdout, cut } = await read(["cat-file", "blob", `${head}:./${path}`], { maxBytes });
    return code === 0 && !cut ? stdout : undefined;
  }).catch(() => undefined);
}
