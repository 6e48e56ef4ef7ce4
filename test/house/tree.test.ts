import { existsSync, readFileSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { describe, expect, it } from "vitest";
import { readTree } from "../../scripts/architecture.mjs";
import { listFiles, listFolders, readGraph, ROOT, SRC } from "../../scripts/source-graph.mjs";

const MAX_LINES = 300;
const MAX_FILES = 16;
const CRUMB_LINES = 25;

const SOURCES = listFiles(SRC);
const FOLDERS = listFolders(SOURCES);
const GUIDE = readFileSync(join(ROOT, "AGENTS.md"), "utf8");

/** What others wrote or what was recorded: neither named nor cut by us. */
const RECORDED = /(?:^|\/)(?:recordings|fixtures|corpus)\//;

describe("the tree", () => {
  it.each(["src", "test", "bench", "scripts", "docs"])("%s has every name in kebab-case", (folder) => {
    const kebab = /^\.?[a-z0-9]+(?:[-.][a-z0-9]+)*$/;
    const odd = listFiles(join(ROOT, folder))
      .filter((file) => !RECORDED.test(file) && basename(file) !== "README.md")
      .filter((file) => !file.split("/").every((name) => kebab.test(name)));
    expect(odd).toEqual([]);
  });

  it.each(["src", "test", "bench", "scripts"])(`%s has no file over ${MAX_LINES} lines`, (folder) => {
    const long = listFiles(join(ROOT, folder))
      .filter((file) => /\.(?:ts|tsx|mts|mjs|cjs|js|sh)$/.test(file) && !RECORDED.test(file))
      .map((file) => ({ file: `${folder}/${file}`, lines: countLines(join(ROOT, folder, file)) }))
      .filter(({ lines }) => lines > MAX_LINES);
    expect(long).toEqual([]);
  });

  it(`has no folder of src with more than ${MAX_FILES} files`, () => {
    const full = FOLDERS.map((folder) => ({ folder, files: filesIn(folder).length })).filter(
      ({ files }) => files > MAX_FILES,
    );
    expect(full).toEqual([]);
  });

  it(`has no crumb: a file under ${CRUMB_LINES} lines with one importer`, () => {
    const importers = new Map<string, string[]>();
    for (const [file, targets] of readGraph())
      for (const target of targets) importers.set(target, [...(importers.get(target) ?? []), file]);
    const crumbs = SOURCES.filter((file) => importers.get(file)?.length === 1)
      .filter((file) => countLines(join(SRC, file)) < CRUMB_LINES)
      .filter((file) => !isEntry(file) && !hasTwins(file));
    expect(crumbs).toEqual([]);
  });
});

describe("the quick tests", () => {
  it("need no browser, no real agent and no large client: tests that do are called *.long.test.ts", () => {
    const test = join(ROOT, "test");
    const needy = listFiles(test)
      .filter((file) => file.endsWith(".test.ts") && !file.endsWith(".long.test.ts"))
      .filter((file) => importsOf(join(test, file)).some((path) => NEEDS_MORE.has(relative(test, path))));
    expect(needy).toEqual([]);
  });
});

/** The parts of the workbench that need programs or packages that only `npm test -- --all` installs. */
const NEEDS_MORE = new Set(["support/agents.ts", "support/browser.ts", "support/clients.ts"]);

/** The files of test/ that this one imports, at any depth. */
function importsOf(path: string, seen = new Set<string>()): string[] {
  const imported = [...readFileSync(path, "utf8").matchAll(/from "(\.[^"]+\.ts)"/g)]
    .map((match) => join(dirname(path), match[1] ?? ""))
    .filter((target) => target.startsWith(join(ROOT, "test")) && existsSync(target) && !seen.has(target));
  for (const target of imported) {
    seen.add(target);
    importsOf(target, seen);
  }
  return [...seen];
}

describe("AGENTS.md", () => {
  const tree = readTree(GUIDE);

  it("has every folder of src once, with one line", () => {
    const told = tree.map(({ folder }) => folder).filter((folder) => folder.startsWith("src/"));
    expect(told.toSorted()).toEqual(FOLDERS.map((folder) => `src/${folder}`).toSorted());
  });

  it("names no path that does not exist", () => {
    const links = [...GUIDE.matchAll(/\]\(([^)#]+)[^)]*\)/g)].map((match) => match[1] ?? "");
    const quoted = [...GUIDE.matchAll(/`([^`\s]+)`/g)].map((match) => match[1] ?? "");
    const paths = [...links, ...quoted.filter(isPath), ...tree.map(({ folder }) => folder)];
    const missing = paths.filter((path) => !existsSync(join(ROOT, path)) && !existsSync(join(SRC, path)));
    expect(missing).toEqual([]);
  });
});

function countLines(path: string): number {
  return readFileSync(path, "utf8").trimEnd().split("\n").length;
}

function filesIn(folder: string): string[] {
  return SOURCES.filter((file) => dirname(file) === folder);
}

/** Ports, schemas and entry points may be small. */
function isEntry(file: string): boolean {
  return ["index", "main", "port", "schema", "schemas"].includes(basename(file).replace(/\.tsx?$/, ""));
}

/** The same noun in a sibling folder: every adapter has its `harness.ts`, however short. */
function hasTwins(file: string): boolean {
  const [folder, name] = [dirname(file), basename(file)];
  const siblings = FOLDERS.filter((other) => other !== folder && dirname(other) === dirname(folder));
  return siblings.some((sibling) => SOURCES.includes(`${sibling}/${name}`));
}

function isPath(text: string): boolean {
  return /^[\w-]+\/[\w./-]*$/.test(text) || /^[\w./-]+\.(?:ts|mjs|md|json)$/.test(text);
}
