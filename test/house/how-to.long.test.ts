import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript";
import { describe, expect, it } from "vitest";
import { ROOT, SRC } from "../../scripts/source-graph.mjs";

const PAGES = ["adding-an-agent", "adding-a-dialect", "adding-a-log", "adding-a-sandbox"];

/** A file of a page: its path stands in the first line of the block. */
const FILE = /^```typescript\n\/\/ ((?:src|test)\/\S+)\n([\s\S]*?)^```$/gm;

describe("how to add", () => {
  it.each(PAGES)("%s: the code compiles where the page puts it", { timeout: 120_000 }, (page) => {
    const files = readFiles(page);
    expect(files.size).toBeGreaterThan(1);
    expect(diagnose(files)).toEqual([]);
  });

  it.each(PAGES)("%s: names only paths that exist, or that it adds", (page) => {
    const text = readPage(page);
    const added = [...readFiles(page).keys()];
    const named = [...text.matchAll(/`((?:src|test|docs|scripts|examples|bin)\/[\w./-]+)`/g)].map(
      (match) => match[1] ?? "",
    );
    const missing = named.filter(
      (path) => !existsSync(join(ROOT, path)) && !added.some((file) => file.startsWith(path)),
    );
    expect(named.length).toBeGreaterThan(3);
    expect(missing).toEqual([]);
  });

  it.each(PAGES)("%s: its trial is not in the tree", (page) => {
    for (const file of readFiles(page).keys()) expect(existsSync(join(ROOT, file)), file).toBe(false);
  });
});

function readPage(page: string): string {
  return readFileSync(join(ROOT, "docs", `${page}.md`), "utf8");
}

function readFiles(page: string): Map<string, string> {
  return new Map([...readPage(page).matchAll(FILE)].map(([, path = "", code = ""]) => [path, code]));
}

/** The complaints of a strict compiler about files that are only in memory. */
function diagnose(files: ReadonlyMap<string, string>): string[] {
  const config = ts.readConfigFile(join(ROOT, "tsconfig.json"), ts.sys.readFile).config as object;
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, ROOT);
  const virtual = new Map([...files].map(([path, code]) => [join(ROOT, path), code]));
  const host = ts.createCompilerHost(options);
  const { fileExists, readFile, getSourceFile } = host;
  host.fileExists = (name) => virtual.has(name) || fileExists(name);
  host.readFile = (name) => virtual.get(name) ?? readFile(name);
  host.getSourceFile = (name, version, ...rest) => {
    const code = virtual.get(name);
    return code === undefined
      ? getSourceFile(name, version, ...rest)
      : ts.createSourceFile(name, code, version);
  };
  // A folder that is only in memory exists as well.
  host.directoryExists = (name) =>
    ts.sys.directoryExists(name) || [...virtual.keys()].some((path) => path.startsWith(`${name}/`));
  const program = ts.createProgram([...virtual.keys()], options, host);
  return [...virtual.keys()].flatMap((path) => {
    const source = program.getSourceFile(path);
    const found = [...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)];
    return found.map(({ messageText }) => {
      const place = path.replace(SRC, "src").replace(`${ROOT}/`, "");
      return `${place}: ${ts.flattenDiagnosticMessageText(messageText, "\n")}`;
    });
  });
}
