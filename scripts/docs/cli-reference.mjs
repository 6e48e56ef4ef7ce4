import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { ROOT } from "../source-graph.mjs";

/** The reference of the command line, from the help of each command that the built program has. */
export function toCliReference() {
  const commands = readCommands(readHelp());
  const index = commands.map(
    ({ name, about }) => `| [\`sluice ${name}\`](#sluice-${name}) | ${cell(about)} |`,
  );
  const parts = commands.map(({ name }) => toCommand(name, readHelp(name)));
  return ["| command | purpose |", "|---|---|", ...index, "", ...parts].join("\n");
}

function readHelp(...command) {
  // A wide terminal: no description is broken into lines.
  const env = { PATH: process.env.PATH, COLUMNS: "1000", NO_COLOR: "1" };
  return execFileSync(process.execPath, [join(ROOT, "bin", "sluice"), ...command, "--help"], {
    encoding: "utf8",
    env,
  });
}

function readCommands(help) {
  return rowsOf(sectionOf(help, "Commands"))
    .map(({ term, about }) => ({ name: term.split(" ")[0] ?? "", about }))
    .filter(({ name }) => name !== "help");
}

function toCommand(name, help) {
  const [, usage = ""] = /^Usage: (.*)$/m.exec(help) ?? [];
  const about = help.split("\n\n")[1] ?? "";
  const after = help.split(/^(?:Options|Commands|Arguments):\n(?:[ ].*\n)*/m).at(-1) ?? "";
  return [
    `## sluice ${name}`,
    "",
    joined(about),
    "",
    "```text",
    usage,
    "```",
    "",
    ...toTable("argument", sectionOf(help, "Arguments")),
    ...toTable("command", sectionOf(help, "Commands")),
    ...toTable("option", sectionOf(help, "Options")),
    ...toNotes(after),
  ].join("\n");
}

function toTable(title, section) {
  const rows = rowsOf(section).filter(
    ({ term }) => !term.startsWith("-h, --help") && !term.startsWith("help "),
  );
  if (rows.length === 0) return [];
  const lines = rows.map(({ term, about }) => `| \`${term.replaceAll("|", "\\|")}\` | ${cell(about)} |`);
  return [`| ${title} | |`, "|---|---|", ...lines, ""];
}

/** Paragraphs stay text; indented lines, the examples, become a block. */
function toNotes(text) {
  const parts = text.trim().split(/\n\n+/);
  return parts.filter((part) => part !== "").flatMap(toNote);
}

function toNote(part) {
  const lines = part.split("\n");
  const examples = lines.filter((line) => line.startsWith("  ")).map((line) => line.trim());
  const words = joined(lines.filter((line) => !line.startsWith("  ")).join("\n"));
  const block = examples.length === 0 ? [] : ["```text", ...examples, "```", ""];
  return [plain(words), "", ...block];
}

function sectionOf(help, title) {
  return new RegExp(`^${title}:\\n((?:  .*\\n)+)`, "m").exec(`${help}\n`)?.[1] ?? "";
}

/** A row is `  term   description`; a line that is further indented goes on with the description. */
function rowsOf(section) {
  const rows = [];
  for (const line of section.split("\n").filter((line) => line.trim() !== "")) {
    const [, term, about = ""] = /^ {2}(\S.*?)(?: {2,}(.*))?$/.exec(line) ?? [];
    if (term !== undefined) rows.push({ term, about });
    else rows.at(-1).about += ` ${line.trim()}`;
  }
  return rows;
}

function joined(text) {
  return text.trim().replaceAll(/\s*\n\s*/g, " ");
}

function cell(text) {
  return plain(text.trim().replaceAll("|", "\\|"));
}

/** Angle brackets and stars of a help text are no markup. */
function plain(text) {
  return text
    .split(/(`[^`]*`)/)
    .map((part, at) => (at % 2 === 1 ? part : part.replaceAll(/[<>*]/g, (letter) => `\\${letter}`)))
    .join("");
}
