import { BadScript } from "./fields.ts";
import { scanJson } from "./json-scanner.ts";
import { parseStep } from "./parse-step.ts";
import type { Step } from "./step.ts";

const MARK = /^\s*#script(?![\w-])/;

/** The steps of a `#script` prompt; undefined for any other prompt. Lines after the array are ignored. */
export function parseScript(prompt: string): Step[] | undefined {
  const mark = MARK.exec(prompt);
  if (mark === null) return undefined;
  const from = prompt.length - prompt.slice(mark[0].length).trimStart().length;
  if (prompt[from] !== "[") {
    throw new BadScript(`#script must be followed by a JSON array of steps (${position(prompt, from)})`);
  }
  const scan = scanJson(prompt, from);
  if ("fault" in scan) {
    const found =
      scan.fault < prompt.length ? `found ${JSON.stringify(prompt[scan.fault])}` : "the text ends";
    throw new BadScript(
      `#script is not valid JSON: expected ${scan.expected}, ${found} (${position(prompt, scan.fault)})`,
    );
  }
  const rest = prompt.slice(scan.end);
  if (!/^[ \t\r]*(?:\n|$)/.test(rest)) {
    throw new BadScript(`#script has text behind its array (${position(prompt, scan.end)})`);
  }
  const steps = JSON.parse(prompt.slice(from, scan.end)) as unknown[];
  return steps.map((step, index) => parseStep(step, `steps[${index}]`));
}

function position(text: string, at: number): string {
  const before = text.slice(0, at).split("\n");
  return `line ${before.length}, column ${(before.at(-1) ?? "").length + 1}`;
}
