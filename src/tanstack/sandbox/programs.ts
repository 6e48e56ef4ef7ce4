import { posix } from "node:path";
import { SluiceError } from "../../contract/index.ts";
import { findCli } from "../../harness/cli.ts";
import type { Sandbox } from "../../sandbox/port.ts";

/** Programs of this host that a sandbox has too. */
export interface Programs {
  readonly needs: readonly string[];
  /** Makes them found by their names inside. */
  place(sandbox: Sandbox): Promise<void>;
}

export function findPrograms(names: readonly string[]): Programs {
  const found = names.map((name) => {
    const cli = findCli(name);
    if (cli) return { name, ...cli };
    const detail = `The program ${name} is not on the PATH of this process, so no sandbox can have it. Install it, or leave it out.`;
    throw new SluiceError("agent_not_installed", detail, { program: name });
  });
  return {
    needs: [...new Set(found.flatMap(({ path, needs }) => [path, ...needs]))],
    async place({ isolated, files, paths }) {
      // One that is not isolated has the PATH of this process.
      if (!isolated) return;
      for (const { name, path } of found) {
        const link = posix.join(paths.home, ".local/bin", name);
        const isThere = await files.stat(link).catch(() => undefined);
        if (!isThere) await files.symlink?.(link, path);
      }
    },
  };
}
