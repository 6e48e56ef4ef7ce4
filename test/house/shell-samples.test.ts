import { execFile, execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { listPages } from "../../scripts/docs/pages.mjs";
import { ROOT } from "../../scripts/source-graph.mjs";
import { readSamples } from "../support/samples.ts";
import { startServer, type TestServer } from "../support/server.ts";

const run = promisify(execFile);
const PAGES = ["README.md", "CONTRIBUTING.md", ...listPages().filter((page) => page.startsWith("docs/"))];
const BLOCKS = PAGES.flatMap(readSamples).filter(({ language }) => language === "sh");
const SLUICE = join(ROOT, "bin", "sluice");

/** Pages whose blocks run from the first to the last, as a reader would run them. */
const RUN = [
  "docs/start.md",
  "docs/universal.md",
  "docs/ndjson.md",
  "docs/agents/scripted.md",
  "docs/troubleshooting.md",
];

/** Blocks that install, that need a real agent, or that do not end by themselves. */
const NOT_RUN = /npm (?:ci|install|start)|--agent (?!scripted)|^sluice (?:serve|model)|sudo |docker /m;

describe("the shell blocks of the documents", () => {
  it("are there, and are valid", () => {
    expect(BLOCKS.length).toBeGreaterThan(20);
    for (const { name, code } of BLOCKS)
      expect(() => execFileSync("bash", ["-n", "-c", code], { stdio: "pipe" }), name).not.toThrow();
  });

  it("name commands and options that exist", () => {
    const help = new Map<string, string>();
    const helpOf = (command: string): string => {
      const known = help.get(command) ?? execFileSync(SLUICE, [command, "--help"], { encoding: "utf8" });
      help.set(command, known);
      return known;
    };
    for (const { name, code } of BLOCKS) {
      const lines = code.replaceAll("\\\n", " ").split(/[\n|;&]+/);
      for (const line of lines) {
        const [, command, rest = ""] = /^\s*(?:\.\/bin\/)?sluice ([a-z]+)(.*)$/.exec(line) ?? [];
        if (command === undefined) continue;
        expect(helpOf(command), `${name}: sluice ${command}`).toContain(`Usage: sluice ${command}`);
        const own = rest.split(/ -- |\s#/)[0]?.replaceAll(/'[^']*'|"[^"]*"/g, "") ?? "";
        for (const [option] of own.matchAll(/(?<=\s)--?[a-z][\w-]*/g))
          expect(helpOf(command), `${name}: sluice ${command} ${option}`).toMatch(new RegExp(`${option}\\b`));
      }
    }
  });

  describe("run", () => {
    let home: string;
    let server: TestServer;
    beforeAll(async () => {
      home = mkdtempSync(join(tmpdir(), "sluice-shell-"));
      mkdirSync(join(home, "bin"));
      symlinkSync(SLUICE, join(home, "bin", "sluice"));
      writeFileSync(join(home, "a.txt"), "a file to list");
      const data = join(home, ".local", "share", "sluice");
      mkdirSync(data, { recursive: true });
      server = await startServer({ data });
    });
    afterAll(async () => {
      await server?.close();
      rmSync(home, { recursive: true, force: true });
    });

    it.each(RUN)("%s", async (page) => {
      const blocks = readSamples(page).filter(
        ({ language, code }) => language === "sh" && !NOT_RUN.test(code),
      );
      expect(blocks.length).toBeGreaterThan(0);
      const code = blocks.map((block) => block.code).join("\n");
      const { XDG_DATA_HOME: _, ...rest } = process.env;
      const env = { ...rest, HOME: home, PATH: `${home}/bin:${process.env["PATH"]}`, SLUICE_URL: server.url };
      const text = `set -e\n${code.replaceAll("http://127.0.0.1:7411", server.url)}`;
      const { stdout } = await run("bash", ["-c", text], { cwd: home, env, timeout: 50_000 });
      expect(stdout).not.toContain("urn:sluice:error");
    });
  });
});
