import { join } from "node:path";
import { type Checkpoints, createCheckpoints, createFolderStorage } from "../../sandbox/index.ts";
import type { Sandbox } from "../../sandbox/port.ts";
import { type TanStackSnapshot, toUnsupported } from "./contract.ts";
import { CONTROL_PATTERNS } from "./files.ts";

/** TanStack's snapshots, stored as checkpoints: without credentials, and independent of their sandbox. */
export class Snapshots {
  readonly #checkpoints: Checkpoints;
  readonly #name: string;

  constructor({ dataDir, name }: { dataDir: string; name: string }) {
    this.#name = name;
    this.#checkpoints = createCheckpoints({
      storage: createFolderStorage(join(dataDir, "checkpoints")),
      cacheFolder: join(dataDir, "checkpoint-cache"),
      never: [dataDir],
    });
  }

  async take(sandbox: Sandbox, label?: string): Promise<TanStackSnapshot> {
    const { info } = await this.#checkpoints.checkpoint({
      roots: await this.#rootsOf(sandbox),
      sessionId: sandbox.id,
      // Installed packages are not excluded: snapshots are taken for them.
      exclude: { workspace: CONTROL_PATTERNS },
      ...(label === undefined ? {} : { comment: label }),
    });
    return { id: info.id, ...(label === undefined ? {} : { label }) };
  }

  async restore(id: string, sandbox: Sandbox, signal?: AbortSignal): Promise<void> {
    const { owner } = sandbox;
    const roots = await this.#rootsOf(sandbox);
    await this.#checkpoints.restore(id, { roots, signal, owner });
  }

  async forget(id: string): Promise<void> {
    await this.#checkpoints.remove(id);
  }

  async #rootsOf({ folders }: Sandbox): Promise<{ workspace: string; home: string }> {
    if (folders) return { workspace: folders.workspace, home: folders.home };
    throw await toUnsupported(this.#name, "snapshots", "Its files are not on this host.");
  }
}
