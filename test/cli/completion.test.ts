import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Workbench } from "./workbench.ts";

const BIN = join(import.meta.dirname, "../../bin/sluice");
const run = promisify(execFile);
let bench: Workbench;

beforeAll(() => {
  bench = new Workbench();
});
afterAll(() => bench.close());

/** The completions of bash for the words of a command line, the last one being unfinished. */
async function complete(...words: string[]): Promise<string[]> {
  const quoted = words.map((word) => `'${word}'`).join(" ");
  const code = `source <("$0" completion bash); COMP_WORDS=(${quoted}); COMP_CWORD=${words.length - 1}; _sluice; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { stdout } = await run("bash", ["-c", code, BIN], { env: bench.env() });
  return stdout.split("\n").filter(Boolean);
}

/** Under CI=true nothing is skipped: it throws. */
function isMissing(shell: string): boolean {
  const folders = (process.env["PATH"] ?? "").split(delimiter);
  const isThere = folders.some((folder) => existsSync(join(folder, shell)));
  if (!isThere && process.env["CI"] === "true")
    throw new Error(`${shell} is not installed, and under CI=true it has to be there`);
  return !isThere;
}

describe("sluice completion", () => {
  it("completes commands, options and values in bash", async () => {
    expect(await complete("sluice", "se")).toEqual(["serve", "sessions", "send"].toSorted(byTable));
    expect(await complete("sluice", "exec", "my", "--t")).toEqual(["--timeout", "--token"].toSorted(byTable));
    expect(await complete("sluice", "sessions", "--status", "wa")).toEqual(["waiting"]);
    expect(await complete("sluice", "completion", "f")).toEqual(["fish"]);
  });

  it.each(["zsh", "fish"])("has every command for %s", async (shell) => {
    const { out, code } = await bench.run(["completion", shell]);
    const { out: help } = await bench.run(["--help"]);
    const names = [...help.matchAll(/^ {2}([a-z]+) .*/gm)].map((match) => match[1] ?? "");
    expect(code).toBe(0);
    expect(names.length).toBeGreaterThan(20);
    for (const name of names.filter((name) => name !== "help" && name !== "sluice"))
      expect(out).toMatch(new RegExp(`\\b${name}\\b`));
  });

  it.for(["zsh", "fish"])("is valid %s", async (shell, { skip }) => {
    if (isMissing(shell)) return skip(`${shell} is not installed; \`npm test\` installs it on Debian`);
    const { out } = await bench.run(["completion", shell]);
    const file = join(bench.folder, `completion.${shell}`);
    await writeFile(file, out);
    await run(shell, ["-n", file]);
    await writeFile(file, `${out}\nif (`);
    await expect(run(shell, ["-n", file])).rejects.toThrow();
  });

  it("explains a wrong shell", async () => {
    const { code, out, err } = await bench.run(["completion", "tcsh"]);
    expect({ code, out }).toEqual({ code: 2, out: "" });
    expect(err).toMatch(/bash, zsh, fish/);
  });
});

describe("help", () => {
  it("has examples for every command", async () => {
    const { out } = await bench.run(["--help"]);
    const commands = out.split("Commands:")[1]?.split("Examples:")[0] ?? "";
    const names = [...commands.matchAll(/^ {2}([a-z]+) /gm)].map((match) => match[1] ?? "");
    for (const name of names.filter((name) => name !== "help")) {
      const { out: help } = await bench.run([name, "--help"]);
      expect(help, name).toMatch(new RegExp(`Examples:\\n(  .*\\n)*? .*sluice ${name}\\b`));
      expect(help, name).toContain("Exit codes:");
    }
  });
});

/** Bash keeps the order of the words that it is given. */
function byTable(a: string, b: string): number {
  const order = ["serve", "sessions", "send", "--timeout", "--token"];
  return order.indexOf(a) - order.indexOf(b);
}
