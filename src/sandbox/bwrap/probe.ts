import { mkdir, mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { BridgePrograms } from "../bridge/programs.ts";
import { Enclosure } from "../host/enclosure.ts";
import { SandboxFolder, type SandboxRecord } from "../host/folder.ts";
import type { Owner } from "../host/owner.ts";
import { BwrapSandbox } from "./sandbox.ts";
import { toOwner } from "./user.ts";

export interface ProbeOptions {
  /** Where it is made if there is no temporary folder. */
  readonly root?: string;
  /** The bridge's two ends, unless they are where the build puts them. */
  readonly programs?: BridgePrograms | undefined;
}

const PATIENCE_MS = 20_000;

/**
 * Runs a command in a real sandbox, as every user that sandboxes of this server may have: the one of a private
 * workspace, and the server's own, which a folder of its own gets. Answers what went wrong, or undefined.
 */
export async function probeBwrap(bwrap: string, options: ProbeOptions): Promise<string | undefined> {
  const owner = await toOwner("probe", undefined);
  const folder = await makeFolder(options.root);
  const users = owner === undefined ? [undefined] : [owner, undefined];
  const probes = await Promise.all(
    users.map((user, index) => tryAs(user, { bwrap, folder, id: `p${index}`, programs: options.programs })),
  );
  // What the probes left is taken away while the caller goes on.
  void Promise.allSettled(probes.map(({ sandbox }) => sandbox?.destroy())).then(() =>
    rm(folder, { recursive: true, force: true }).catch(() => {}),
  );
  return probes.find(({ failure }) => failure !== undefined)?.failure;
}

interface Probe {
  readonly sandbox?: BwrapSandbox;
  readonly failure?: string;
}

async function tryAs(
  owner: Owner | undefined,
  {
    bwrap,
    folder: root,
    id,
    programs,
  }: { bwrap: string; folder: string; id: string; programs: BridgePrograms | undefined },
): Promise<Probe> {
  let sandbox: BwrapSandbox | undefined;
  try {
    const folder = await SandboxFolder.at(root, id);
    const record: SandboxRecord = {
      version: 1,
      id: `probe-${folder.key}`,
      provider: "bwrap",
      network: { mode: "none" },
      ...(owner === undefined ? {} : { owner }),
      ...(await Enclosure.locate(folder.key, undefined)),
    };
    await folder.make(record);
    sandbox = new BwrapSandbox(folder, record, { bwrap, hide: [root], programs, scope: undefined });
    const { exitCode, stderr, timedOut } = await sandbox.exec("exec /bin/true", { timeoutMs: PATIENCE_MS });
    if (exitCode === 0) return { sandbox };
    const failure = timedOut ? "it does not answer" : stderr.trim() || `exit code ${exitCode}`;
    return { sandbox, failure };
  } catch (error) {
    return { ...(sandbox && { sandbox }), failure: toWords(error) };
  }
}

/** The launcher's own sentence says less than what bwrap said. */
function toWords(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  return cause instanceof Error ? cause.message : String(cause);
}

async function makeFolder(root: string | undefined): Promise<string> {
  return makeBelow(tmpdir()).catch(async (error: Error) => {
    if (root === undefined) throw error;
    await mkdir(root, { recursive: true, mode: 0o700 });
    return makeBelow(root);
  });
}

async function makeBelow(parent: string): Promise<string> {
  return realpath(await mkdtemp(join(parent, "sluice-probe-")));
}
