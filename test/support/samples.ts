import { existsSync, readFileSync } from "node:fs";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import ts from "typescript";

const ROOT = resolve(import.meta.dirname, "../..");

/** A block of code on a page of documentation. */
export interface Sample {
  /** Its page, its number there and the heading that it stands under. */
  readonly name: string;
  readonly language: string;
  readonly code: string;
  /** Its imports, without Node and this package. */
  readonly packages: readonly string[];
}

export function readSamples(page: string): Sample[] {
  const text = readFileSync(join(ROOT, page), "utf8");
  const blocks = text.matchAll(/^```(\w*)\n(.*?)^```$/gms);
  return [...blocks].map(({ 1: language = "", 2: code = "", index }, at) => {
    const [, heading = ""] = /.*^#+ (.*?)$/ms.exec(text.slice(0, index)) ?? [];
    return { name: `${page} ${at + 1} (${heading})`, language, code, packages: packagesOf(code) };
  });
}

/** A project as a user who copies a sample has it: this package, and others from the given `node_modules`. */
export interface SampleProject {
  /** The errors of a strict compiler for the samples. */
  check(samples: readonly Sample[]): Promise<string[]>;
  /** The sample as a program of a folder of its own, without its types; answers where it is. */
  write(sample: Sample): Promise<{ folder: string; file: string }>;
  remove(): Promise<void>;
}

export async function createSampleProject(modules = join(ROOT, "node_modules")): Promise<SampleProject> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-samples-"));
  const link = async (name: string, target: string): Promise<void> => {
    const link = join(folder, "node_modules", name);
    if (existsSync(link)) return;
    await mkdir(dirname(link), { recursive: true });
    await symlink(target, link);
  };
  const linkAll = async (samples: readonly Sample[]): Promise<void> => {
    await link("sluice", ROOT);
    for (const name of samples.flatMap(({ packages }) => packages)) await link(name, join(modules, name));
  };
  let count = 0;
  return {
    async check(samples) {
      await linkAll(samples);
      const files = new Map<string, Sample>();
      for (const sample of samples) {
        const file = join(folder, `sample${files.size + 1}.mts`);
        await writeFile(file, sample.code);
        files.set(file, sample);
      }
      const program = ts.createProgram([...files.keys()], OPTIONS);
      return ts.getPreEmitDiagnostics(program).flatMap(({ file, messageText }) => {
        const sample = files.get(file?.fileName ?? "");
        if (file && !sample) return [];
        return `${sample?.name}: ${ts.flattenDiagnosticMessageText(messageText, "\n")}`;
      });
    },
    async write(sample) {
      await linkAll([sample]);
      const own = join(folder, `program${++count}`);
      await mkdir(own);
      const file = join(own, "program.mjs");
      const untyped = ts.transpileModule(sample.code, { compilerOptions: OPTIONS, fileName: "program.mts" });
      await writeFile(file, untyped.outputText);
      return { folder: own, file };
    },
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}

const OPTIONS: ts.CompilerOptions = {
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  allowImportingTsExtensions: true,
  target: ts.ScriptTarget.ES2023,
  lib: ["lib.es2023.d.ts", "lib.esnext.disposable.d.ts", "lib.dom.d.ts", "lib.dom.iterable.d.ts"],
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  types: ["node"],
  typeRoots: [join(ROOT, "node_modules/@types")],
  paths: sourcesOfEntries(),
};

/** Each entry of the package, as its source file: the check needs no build. */
function sourcesOfEntries(): Record<string, string[]> {
  const { exports } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
    exports: Record<string, string | { types: string }>;
  };
  return Object.fromEntries(
    Object.entries(exports).flatMap(([entry, target]) => {
      if (typeof target === "string") return [];
      const source = target.types.replace("./dist/", "src/").replace(/\.d\.ts$/, ".ts");
      return [[`sluice${entry.slice(1)}`, [join(ROOT, source)]]];
    }),
  );
}

function packagesOf(code: string): string[] {
  const names = [...code.matchAll(/^(?:import|\} from) (?:.* from )?"((?:@[^/"]+\/)?[^/"]+)/gm)].map(
    ([, name = ""]) => name,
  );
  return [...new Set(names)].filter((name) => name !== "sluice" && !name.startsWith("node:"));
}
