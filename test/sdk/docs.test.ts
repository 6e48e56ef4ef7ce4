import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import ts from "typescript";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Sluice } from "../../src/sdk/index.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const PAGE = readFileSync(join(ROOT, "docs/sdk.md"), "utf8");
const BLOCKS = [...PAGE.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code = ""], index) => ({
  name: `${index + 1} (${headingBefore(code)})`,
  code,
}));
const run = promisify(execFile);

/** What the classes below have for each other. */
const INTERNAL = new Set([
  "constructor",
  "reconnect",
  "hear",
  "lose",
  "stopWork",
  "use",
  "connect",
  "disconnect",
  "enter",
  "whenPlaced",
  "demandShelf",
]);

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-docs-"));
  await mkdir(join(folder, "node_modules"));
  await symlink(ROOT, join(folder, "node_modules/sluice"));
  await symlink(join(ROOT, "node_modules/zod"), join(folder, "node_modules/zod"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

describe("docs/sdk.md", () => {
  it("has an example for every public method", () => {
    for (const method of methodsOf(Sluice.prototype))
      expect(
        BLOCKS.some(({ code }) => code.includes(`.${method}(`)),
        method,
      ).toBe(true);
  });

  it("compiles in strict mode", { timeout: 180_000 }, async () => {
    const files = await Promise.all(
      BLOCKS.map(async ({ code }, index) => {
        const file = join(folder, `block${index}.mts`);
        await writeFile(file, code);
        return file;
      }),
    );
    const program = ts.createProgram(files, {
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
      paths: { sluice: [join(ROOT, "src/index.ts")] },
    });
    const problems = ts
      .getPreEmitDiagnostics(program)
      .filter(({ file }) => file === undefined || files.includes(file.fileName))
      .map(
        ({ file, messageText }) => `${file?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, "\n")}`,
      );
    expect(problems).toEqual([]);
  });

  it.each(BLOCKS.map(({ name, code }) => [name, code]))("runs example %s", async (name, code) => {
    const place = join(folder, name.replace(/\W+/g, "-"));
    await mkdir(join(place, "data"), { recursive: true });
    await symlink(join(folder, "node_modules"), join(place, "node_modules"));
    // The examples have no types of their own, so that what is shown is what runs.
    await writeFile(join(place, "program.mjs"), code);
    const env = { ...process.env, XDG_DATA_HOME: join(place, "data") };
    const { stderr } = await run(process.execPath, ["program.mjs"], { cwd: place, env, timeout: 45_000 });
    expect(stderr).toBe("");
  });
});

/** Its own and those of the classes that it is made of, up to the emitter. */
function methodsOf(prototype: object): string[] {
  if (Object.hasOwn(prototype, "tell")) return [];
  const own = Object.getOwnPropertyNames(prototype).filter((name) => !INTERNAL.has(name));
  return [...own, ...methodsOf(Object.getPrototypeOf(prototype) as object)];
}

function headingBefore(code: string): string {
  const before = PAGE.slice(0, PAGE.indexOf(code));
  return /^#+ (.*)$/m.exec(before.slice(before.lastIndexOf("\n#") + 1))?.[1] ?? "";
}
