import { mkdir, mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SandboxFolder, type SandboxRecord } from "../host/folder.ts";
import { findOwner, type Owner } from "../host/owner.ts";
import { Enclosure } from "../host/processes/enclosure.ts";
import type { EgressPrograms } from "../programs.ts";
import { BwrapSandbox } from "./sandbox.ts";

export interface ProbeOptions {
  /** The parent of the probe's folder where there is no temporary folder. */
  readonly root?: string;
  /** The programs of the egress proxy; those of the build by default. */
  readonly programs?: EgressPrograms | undefined;
}

const PATIENCE_MS = 20_000;

/**
 * Runs a command in a real sandbox, once as each user that sandboxes of this server run as: the user of a private
 * workspace, and the server's own. Returns the failure; undefined where there is none.
 */
export async function probeBwrap(bwrap: string, options: ProbeOptions): Promise<string | undefined> {
  const owner = await findOwner("probe", undefined);
  const folder = await makeFolder(options.root);
  const users = owner === undefined ? [undefined] : [owner, undefined];
  const probes = await Promise.all(
    users.map((user, index) => tryAs(user, { bwrap, folder, id: `p${index}`, programs: options.programs })),
  );
  // The probes' leftovers are removed while the caller goes on.
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
  }: { bwrap: string; folder: string; id: string; programs: EgressPrograms | undefined },
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
    return { ...(sandbox && { sandbox }), failure: toMessage(error) };
  }
}

/** The message of the cause, if there is one: bwrap's message says more than the launcher's. */
function toMessage(error: unknown): string {
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
