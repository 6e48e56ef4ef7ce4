import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";

export const ROOT = resolve(import.meta.dirname, "..");
export const SRC = join(ROOT, "src");

/**
 * Each room of `src`, with the rooms that it may import. The map in docs/architecture.md and the sentence in AGENTS.md
 * are drawn from this table; test/house/rooms.test.ts holds the code to it.
 */
export const MAY_IMPORT = {
  contract: [],
  text: [],
  disk: ["contract"],
  sqlite: ["contract"],
  postgres: ["contract"],
  log: ["contract", "sqlite", "postgres"],
  catalog: ["contract", "sqlite", "postgres"],
  spool: ["contract", "disk"],
  gateway: ["contract"],
  sandbox: ["contract", "disk", "gateway", "spool"],
  tools: ["contract"],
  "scripted-agent": ["contract", "text"],
  harness: ["contract", "text", "scripted-agent"],
  model: ["contract", "scripted-agent"],
  dialects: ["contract"],
  client: ["contract"],
  ui: ["contract", "dialects", "client"],
  sessions: ["contract", "text", "sqlite", "log", "spool", "sandbox", "harness", "tools", "gateway"],
  http: ["contract", "disk", "log", "catalog", "dialects", "sessions"],
  tanstack: ["contract", "client", "spool", "sandbox", "harness"],
  sdk: ["contract", "log", "sandbox", "harness", "dialects", "client", "sessions"],
  testing: ["contract", "log", "catalog", "client", "sessions", "http"],
  cli: [
    "contract",
    "sqlite",
    "postgres",
    "log",
    "catalog",
    "sandbox",
    "harness",
    "model",
    "dialects",
    "client",
    "gateway",
    "sessions",
    "http",
  ],
};

/** Every file below a folder, as paths relative to it, in order. */
export function listFiles(folder) {
  return readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
    .toSorted();
}

/** Every folder of `src`, at any level. */
export function listFolders(files) {
  const folders = new Set();
  for (const file of files)
    for (let folder = dirname(file); folder !== "."; folder = dirname(folder)) folders.add(folder);
  return [...folders].toSorted();
}

const IMPORT = /\b(?:from|import)\s*\(?\s*"([^"]+)"/g;
const TYPE_ONLY =
  /\b(?:import|export) type [^;]*?from "[^"]+"|\bimport \{(?:\s*type [\w$]+(?: as [\w$]+)?,?)+\s*\} from "[^"]+"/g;

/** The specifiers of a source text; without those that are erased when `values` is set. */
export function readSpecifiers(text, { values = false } = {}) {
  const code = text.replaceAll(/^\s*(?:\/\*)?\*.*$|^\s*\/\/.*$/gm, "");
  const kept = values ? code.replaceAll(TYPE_ONLY, "") : code;
  return [...kept.matchAll(IMPORT)].map((match) => match[1]);
}

/** Which file of `src` imports which. */
export function readGraph(options) {
  const files = listFiles(SRC).filter((file) => /\.tsx?$/.test(file));
  return new Map(
    files.map((file) => {
      const specifiers = readSpecifiers(readFileSync(join(SRC, file), "utf8"), options);
      const targets = specifiers
        .filter((specifier) => specifier.startsWith("."))
        .map((specifier) => relative(SRC, resolve(SRC, dirname(file), specifier)));
      return [file, [...new Set(targets)]];
    }),
  );
}

export function roomOf(file) {
  return file.split("/")[0];
}

/** The groups of files that reach each other by imports, largest first. Tarjan's strongly connected components. */
export function findCycles(graph) {
  const order = new Map();
  const low = new Map();
  const stack = [];
  const cycles = [];
  const visit = (file) => {
    order.set(file, order.size);
    low.set(file, order.get(file));
    stack.push(file);
    for (const target of graph.get(file) ?? []) {
      if (!order.has(target)) visit(target);
      if (stack.includes(target)) low.set(file, Math.min(low.get(file), low.get(target)));
    }
    if (low.get(file) !== order.get(file)) return;
    const group = stack.splice(stack.indexOf(file));
    if (group.length > 1 || graph.get(file)?.includes(file)) cycles.push(group.toSorted());
  };
  for (const file of graph.keys()) if (!order.has(file)) visit(file);
  return cycles.toSorted((a, b) => b.length - a.length);
}

/** The rooms in layers: each room stands behind the last of those that it imports. */
export function toLayers(edges) {
  const depths = new Map();
  const depthOf = (room) => {
    if (!depths.has(room))
      depths.set(room, Math.max(0, ...[...(edges[room] ?? [])].map((other) => depthOf(other) + 1)));
    return depths.get(room);
  };
  const layers = [];
  for (const room of Object.keys(edges)) (layers[depthOf(room)] ??= []).push(room);
  return layers.map((rooms) => rooms.toSorted());
}

/** The edges without those that follow from others. */
export function reduceEdges(edges) {
  const reaches = (from, to) =>
    (edges[from] ?? []).some((next) => next === to || (next !== from && reaches(next, to)));
  return Object.fromEntries(
    Object.entries(edges).map(([room, targets]) => [
      room,
      targets.filter((to) => !targets.some((via) => via !== to && reaches(via, to))),
    ]),
  );
}
