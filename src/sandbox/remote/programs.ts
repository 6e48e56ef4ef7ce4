import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { basename, dirname, join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import { SluiceError, type Programs } from "../../contract/index.ts";
import type { RunnerClient } from "./client.ts";

interface OwnProgram {
  readonly hash: string;
  readonly name: string;
  readonly content: Buffer;
}

const known = new Map<string, OwnProgram>();

/** The programs of a machine, and the files of sluice's own that its agents need there. */
export class OwnPrograms {
  readonly #client: RunnerClient;
  readonly #wanted = new Set<OwnProgram>();
  readonly #there = new Set<string>();
  #hello: Promise<{ node: string; root: string }> | undefined;

  constructor(client: RunnerClient) {
    this.#client = client;
  }

  async find(names: readonly string[]): Promise<Programs> {
    this.#hello ??= this.#client.call("/v1/hello", { method: "GET", repeats: true });
    this.#hello.catch(() => (this.#hello = undefined));
    const { node, root } = await this.#hello;
    const found = await this.#client.call<Record<string, string>>("/v1/which", {
      body: { names },
      repeats: true,
    });
    return {
      node,
      find: (name) => (Object.hasOwn(found, name) ? found[name] : undefined),
      own: (path) => {
        const program = readProgram(path);
        this.#wanted.add(program);
        return posix.join(root, "programs", program.hash, program.name);
      },
    };
  }

  /** Copies the files whose paths were asked for. */
  async upload(): Promise<void> {
    for (const { hash, name, content } of this.#wanted) {
      if (this.#there.has(hash)) continue;
      const path = `/v1/programs/${hash}/${name}`;
      const { exists } = await this.#client.call<{ exists: boolean }>(path, { method: "GET", repeats: true });
      if (!exists) await this.#client.call(path, { method: "PUT", content, repeats: true });
      this.#there.add(hash);
    }
  }
}

/** A package's `.js` is a module by its package.json, which is not copied: the copy says it by its name. */
function readProgram(path: string): OwnProgram {
  const program = known.get(path) ?? load(path);
  known.set(path, program);
  return program;
}

function load(path: string): OwnProgram {
  try {
    const content = readFileSync(path);
    const hash = createHash("sha256").update(content).digest("hex");
    return { hash, name: basename(path).replace(/\.js$/, ".mjs"), content };
  } catch (cause) {
    throw new SluiceError("internal", `${path} is missing. Run: npm run build`, {}, { cause });
  }
}

const HERE = import.meta.url;

/** The runner's file in this package, from the sources as well as from the build. */
export function findRunnerProgram(): string {
  for (let folder = dirname(fileURLToPath(HERE)); ; folder = dirname(folder)) {
    const file = join(folder, "dist", "agents", "runner.cjs");
    if (existsSync(join(folder, "package.json")) || folder === dirname(folder)) return file;
  }
}
