import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import ts from "typescript";
import type { Sample } from "./samples.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const run = promisify(execFile);
const QUIET = ["--no-audit", "--no-fund", "--loglevel=error", "--prefer-offline"];

/** An empty project with this package as npm publishes it: packed and installed with its own dependencies. */
export interface InstalledPackage {
  readonly folder: string;
  /** The published files, relative to the package. */
  readonly files: readonly string[];
  /** The errors of a strict compiler that resolves imports in this way. */
  check(samples: readonly Sample[], resolution: "nodenext" | "bundler"): Promise<string[]>;
  /** A sample as a program without its types; answers its path. */
  write(sample: Pick<Sample, "code">): Promise<string>;
  /** The own files and the packages that a program loads. */
  readLoaded(code: string): Promise<string[]>;
  remove(): Promise<void>;
}

export async function installPackage(): Promise<InstalledPackage> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-installed-"));
  const { stdout } = await run("npm", ["pack", "--json", "--pack-destination", folder], {
    cwd: ROOT,
    maxBuffer: 64 * 1024 * 1024,
  });
  const [packed] = JSON.parse(stdout) as { filename: string; files: { path: string }[] }[];
  await writeFile(join(folder, "package.json"), '{ "private": true, "type": "module" }\n');
  await run("npm", ["install", join(folder, packed?.filename ?? ""), ...QUIET], { cwd: folder });
  let count = 0;
  const write = async (code: string, suffix: string): Promise<string> => {
    const file = join(folder, `sample${++count}${suffix}`);
    await writeFile(file, code);
    return file;
  };
  return {
    folder,
    files: packed?.files.map(({ path }) => path) ?? [],
    async check(samples, resolution) {
      const files = new Map<string, Sample>();
      for (const sample of samples) files.set(await write(sample.code, ".ts"), sample);
      const program = ts.createProgram([...files.keys()], { ...OPTIONS, ...RESOLUTIONS[resolution] });
      return ts.getPreEmitDiagnostics(program).map(({ file, messageText }) => {
        const place = files.get(file?.fileName ?? "")?.name ?? file?.fileName;
        return `${place}: ${ts.flattenDiagnosticMessageText(messageText, "\n")}`;
      });
    },
    write: ({ code }) =>
      write(
        ts.transpileModule(code, { compilerOptions: OPTIONS, fileName: "program.mts" }).outputText,
        ".mjs",
      ),
    async readLoaded(code) {
      const loaded = join(folder, `loaded${++count}.txt`);
      const hooks = await write(HOOKS, ".mjs");
      const start = await write(
        `import { register } from "node:module"; register("file://${hooks}");`,
        ".mjs",
      );
      const env = { ...process.env, LOADED: loaded };
      await run(process.execPath, ["--import", start, await write(code, ".mjs")], { cwd: folder, env });
      const urls = (await readFile(loaded, "utf8")).trim().split("\n");
      return urls.flatMap((url) => url.split(`${folder}/node_modules/`)[1] ?? []);
    },
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}

/** Gives the project a package of our own `node_modules`, such as the types of Node. */
export async function lend({ folder }: InstalledPackage, name: string): Promise<void> {
  await mkdir(join(folder, "node_modules", name, ".."), { recursive: true });
  await symlink(join(ROOT, "node_modules", name), join(folder, "node_modules", name));
}

const HOOKS = `import { appendFileSync } from "node:fs";
export const load = (url, context, next) => {
  appendFileSync(process.env.LOADED, url + "\\n");
  return next(url, context);
};
`;

const OPTIONS: ts.CompilerOptions = {
  strict: true,
  noEmit: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  verbatimModuleSyntax: true,
  target: ts.ScriptTarget.ES2023,
  lib: ["lib.es2023.d.ts", "lib.esnext.disposable.d.ts", "lib.dom.d.ts", "lib.dom.iterable.d.ts"],
  module: ts.ModuleKind.NodeNext,
  types: ["node"],
};

const RESOLUTIONS = {
  nodenext: { module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext },
  bundler: { module: ts.ModuleKind.ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler },
} satisfies Record<string, ts.CompilerOptions>;
