import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { MAY_IMPORT, readGraph, reduceEdges, ROOT, roomOf, SRC, toLayers } from "./source-graph.mjs";

/** The generated parts of the documents, each with its markers: `node scripts/architecture.mjs` writes them. */
export function readGenerated() {
  const guide = readFileSync(join(ROOT, "AGENTS.md"), "utf8");
  return [
    { file: "AGENTS.md", name: "direction", text: toDirection() },
    { file: "docs/architecture.md", name: "rooms", text: drawRooms(readEdges(), guide) },
    { file: "docs/concepts.md", name: "rooms", text: drawRooms(readEdges(), guide) },
    { file: "docs/architecture.md", name: "walk", text: drawWalks(guide) },
    { file: "docs/adding-an-agent.md", name: "harness", text: quote("harness/port.ts", "Harness") },
    { file: "docs/adding-a-dialect.md", name: "dialect", text: quote("dialects/port.ts", "Dialect") },
    { file: "docs/adding-a-log.md", name: "log", text: quote("log/port.ts", "EventLog") },
    { file: "docs/adding-a-log.md", name: "store", text: quote("log/store.ts", "SegmentStore") },
    { file: "docs/adding-a-sandbox.md", name: "provider", text: quote("sandbox/port.ts", "SandboxProvider") },
    { file: "docs/adding-a-sandbox.md", name: "sandbox", text: quote("sandbox/port.ts", "Sandbox") },
  ];
}

/** The text of a document with one generated part in its place. */
export function withPart(text, { name, text: part }) {
  const [begin, end] = [`<!-- ${name}:begin -->\n`, `<!-- ${name}:end -->`];
  const [from, to] = [text.indexOf(begin), text.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`the markers of "${name}" are missing`);
  return text.slice(0, from + begin.length) + part + text.slice(to);
}

/** The rooms that each room imports, read from the code. */
export function readEdges() {
  const edges = Object.fromEntries(Object.keys(MAY_IMPORT).map((room) => [room, new Set()]));
  for (const [file, targets] of readGraph())
    for (const target of targets)
      if (roomOf(target) !== roomOf(file)) edges[roomOf(file)]?.add(roomOf(target));
  return Object.fromEntries(Object.entries(edges).map(([room, targets]) => [room, [...targets].toSorted()]));
}

/** The folders of the tree in AGENTS.md, with their lines. */
export function readTree(guide) {
  const tree = /```\n(bin\/[\s\S]*?)```/.exec(guide)?.[1] ?? "";
  const path = [];
  return tree
    .trimEnd()
    .split("\n")
    .map((line) => {
      const [, indent, name, about] = /^( *)(\S+)\/ +(\S.*)$/.exec(line) ?? [];
      if (name === undefined) throw new Error(`no folder in the line "${line}" of the tree in AGENTS.md`);
      path.splice(indent.length / 2, path.length, name);
      return { folder: path.join("/"), about };
    });
}

/** The steps of a walk in AGENTS.md. */
export function readWalk(guide, name) {
  const table = guide.split(`<!-- walk-${name} -->\n`)[1]?.split("\n\n")[0] ?? "";
  return table
    .split("\n")
    .slice(2)
    .map((row) => {
      const [, room, file, about] = /^\| `(\S+)\/` \| `(\S+)` \| (.*) \|$/.exec(row) ?? [];
      if (room === undefined) throw new Error(`no step in the row "${row}" of the walk ${name} in AGENTS.md`);
      return { room, file, about };
    });
}

function toDirection() {
  const layers = toLayers(MAY_IMPORT).map((rooms) => rooms.map((room) => `\`${room}\``).join(", "));
  return `A room imports only rooms to its left: ${layers.join(" ← ")}.\n`;
}

const MARKS = "①②③④⑤⑥⑦⑧⑨⑩⑪⑫";

function drawRooms(edges, guide) {
  const about = new Map(readTree(guide).map((line) => [line.folder, line.about]));
  const walked = [...new Set(readWalk(guide, "out").map(({ room }) => roomOf(room)))];
  const mark = (room) => (walked.includes(room) ? ` ${MARKS[walked.indexOf(room)]}` : "");
  const draw = (room) =>
    `    ${room}["<b>${room}</b>${mark(room)}<br/>${toLabel(about.get(`src/${room}`) ?? "")}"]`;
  const layers = toLayers(edges).map((rooms, depth) =>
    [`  subgraph layer${depth} [" "]`, "    direction LR"].concat(rooms.map(draw), "  end"),
  );
  const arrows = Object.entries(reduceEdges(edges)).flatMap(([room, targets]) =>
    targets.map((target) => `  ${room} --> ${target}`),
  );
  return fence([
    "flowchart TB",
    ...layers.toReversed().flat(),
    ...arrows,
    "  classDef walk stroke-width:3px",
    `  class ${walked.join(",")} walk`,
  ]);
}

/** The words of a line before its first colon, semicolon or comma. */
function toLabel(about) {
  return about.split(/[:;,]/)[0].replaceAll('"', "'");
}

/** Both walks beside each other. */
function drawWalks(guide) {
  return fence([
    "flowchart TB",
    ...drawWalk("out", readWalk(guide, "out"), ["the CLI", "the client"]),
    ...drawWalk("in", readWalk(guide, "in"), ["the client", "the CLI"]),
  ]);
}

function drawWalk(name, steps, [from, to]) {
  const rooms = [...new Set(steps.map(({ room }) => room))];
  const nodes = rooms.map((room, index) => {
    const own = steps.filter((step) => step.room === room);
    const files = own.map(({ file }) => file.slice(file.lastIndexOf("/") + 1)).join(", ");
    return `    ${name}${index + 1}["${index + 1}. <b>${room}</b><br/>${files}"]`;
  });
  const path = [`${name}-from`, ...rooms.map((_, index) => `${name}${index + 1}`), `${name}-to`].join(
    " --> ",
  );
  return [
    `  subgraph walk-${name} ["${name}"]`,
    "    direction TB",
    `    ${name}-from(["${from}"])`,
    ...nodes,
    `    ${name}-to(["${to}"])`,
    `    ${path}`,
    "  end",
  ];
}

function fence(lines, language = "mermaid") {
  return [`\`\`\`${language}`, ...lines, "```", ""].join("\n");
}

/** An interface as its source has it. */
function quote(file, name) {
  const source = readFileSync(join(SRC, file), "utf8");
  const found = new RegExp(`^export interface ${name}\\b[\\s\\S]*?^}`, "m").exec(source)?.[0];
  if (found === undefined) throw new Error(`no interface ${name} in src/${file}`);
  return fence([`// of src/${file}`, found], "typescript");
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  for (const part of readGenerated()) {
    const path = join(ROOT, part.file);
    writeFileSync(path, withPart(readFileSync(path, "utf8"), part));
  }
}
