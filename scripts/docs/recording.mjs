import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ROOT } from "../source-graph.mjs";
import { escape } from "./paint.mjs";

// Draws docs/recording.svg from a real run of `sluice run` at a terminal: node scripts/docs/recording.mjs
const COMMAND = `sluice run --session demo "Show me what you can do."`;
const [COLUMNS, CELL, LINE, MARGIN, BAR] = [84, 7.8, 18, 18, 30];
const ESCAPE = String.fromCharCode(27);
const CHANGE = new RegExp(`(${ESCAPE}\\[\\d+m)`);
const COLOURS = { 31: "red", 32: "green", 33: "yellow", 35: "magenta", 36: "cyan" };

const folder = mkdtempSync(join(tmpdir(), "sluice-recording-"));
try {
  const lines = toLines(record());
  writeFileSync(
    join(ROOT, "docs", "recording.svg"),
    toSvg([[{ text: `$ ${COMMAND}`, classes: ["prompt"] }], ...lines]),
  );
} finally {
  rmSync(folder, { recursive: true, force: true });
}

function record() {
  const [bin, work] = ["bin", "work"].map((name) => join(folder, name));
  for (const path of [bin, work]) mkdirSync(path);
  symlinkSync(join(ROOT, "bin", "sluice"), join(bin, "sluice"));
  const env = { PATH: `${bin}:${process.env.PATH}`, HOME: folder, TERM: "xterm-256color", LANG: "C.UTF-8" };
  const args = ["-qec", `stty cols ${COLUMNS}; ${COMMAND}`, "/dev/null"];
  return execFileSync("script", args, {
    cwd: work,
    env,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
  });
}

/** Lines of spans with the classes of their colours. The transcript of a run moves no cursor. */
function toLines(text) {
  const classes = new Set();
  return text
    .trimEnd()
    .split(/\r?\n/)
    .map((line) =>
      line.split(CHANGE).flatMap((part) => {
        const code = CHANGE.test(part) ? part.slice(2, -1) : undefined;
        if (code === undefined) return part === "" ? [] : [{ text: part, classes: [...classes] }];
        change(classes, Number(code));
        return [];
      }),
    );
}

function change(classes, code) {
  if (code === 1) classes.add("bold");
  else if (code === 2) classes.add("dim");
  else if (code === 22) ["bold", "dim"].forEach((name) => classes.delete(name));
  else if (code === 39 || code === 0) Object.values(COLOURS).forEach((name) => classes.delete(name));
  else if (COLOURS[code]) classes.add(COLOURS[code]);
}

function toSvg(lines) {
  const [width, height] = [COLUMNS * CELL + 2 * MARGIN, lines.length * LINE + 2 * MARGIN + BAR];
  const texts = lines.map((spans, at) => {
    const inner = spans.map(
      ({ text, classes }) => `<tspan class="${classes.join(" ")}">${escape(text)}</tspan>`,
    );
    return `<text x="${MARGIN}" y="${BAR + MARGIN + (at + 0.7) * LINE}">${inner.join("")}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="A run of sluice at a terminal">
<style>
text { font: 13px ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d7dde3; white-space: pre }
.prompt, .bold { font-weight: 600 } .prompt { fill: #fff } .dim { fill: #8b97a2 }
.red { fill: #f08a8a } .green { fill: #7fcf9f } .yellow { fill: #e5c07b } .magenta { fill: #d49be2 } .cyan { fill: #6cc7d9 }
</style>
<rect width="${width}" height="${height}" rx="8" fill="#14181c"/>
<circle cx="18" cy="17" r="5" fill="#4a545e"/><circle cx="36" cy="17" r="5" fill="#4a545e"/><circle cx="54" cy="17" r="5" fill="#4a545e"/>
${texts.join("\n")}
</svg>
`;
}
