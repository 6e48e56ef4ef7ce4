import { existsSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { detectCli, requireCli } from "../cli.ts";
import type { Detected, LaunchContext } from "../port.ts";
import { packageRoot } from "../program/npm-package.ts";

export const INSTALL = "npm install -g @openai/codex";

/** How Codex is started, and what of the disk it needs. */
export interface Program {
  readonly argv: readonly string[];
  readonly needs: readonly string[];
}

export function detect(options: { withVersion?: boolean } = {}): Promise<Detected> {
  return detectCli("codex", { install: INSTALL, ...options });
}

export function findProgram(context: LaunchContext): Program {
  const cli = requireCli("codex", { title: "Codex", install: INSTALL, context });
  if (!cli.path.endsWith(".js")) return { argv: [cli.path], needs: cli.needs };
  // npm's launcher only starts the binary beside it, and is one more process to end.
  const native = findNative(cli.path);
  if (native) return native;
  return { argv: [process.execPath, cli.path], needs: [...cli.needs, process.execPath] };
}

/** `@openai/codex-<platform>-<arch>/vendor/<target>/bin/codex`, next to the launcher's package or inside of it. */
function findNative(launcher: string): Program | undefined {
  const root = packageRoot(launcher);
  if (root === undefined) return undefined;
  const name = `codex-${process.platform}-${process.arch}`;
  const folders = [join(dirname(root), name), join(root, "node_modules", "@openai", name), root];
  for (const folder of folders) {
    const vendor = join(folder, "vendor");
    for (const target of existsSync(vendor) ? readdirSync(vendor) : []) {
      const path = join(vendor, target, "bin", "codex");
      if (existsSync(path)) return { argv: [path], needs: [join(vendor, target)] };
    }
  }
  return undefined;
}
