import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ended, printed, script, Workbench } from "./workbench.ts";

const BIN = join(import.meta.dirname, "../../bin/sluice");
const SCRIPT = "/usr/bin/script";
let bench: Workbench;

beforeEach(() => {
  bench = new Workbench();
});

afterEach(() => bench.close());

/** `script` (util-linux) gives a program its own terminal and forwards our input as keys. */
function atTerminal(args: readonly string[], env: NodeJS.ProcessEnv = {}) {
  const quoted = [BIN, ...args].map((word) => `'${word}'`).join(" ");
  return bench.start([], {
    argv: [SCRIPT, "-qefc", quoted, "/dev/null"],
    env: { TERM: "xterm", SHELL: "/bin/sh", ...env },
  });
}

describe.skipIf(!existsSync(SCRIPT))("at a terminal", () => {
  it("asks for permissions", async () => {
    const steps = [
      { ask: { shell: "touch allowed" } },
      { question: { prompt: "Which?", options: ["red", "blue"] } },
    ];
    const child = atTerminal(["run", script(...steps)]);
    const end = ended(child);
    await printed(child, /allow\? \[y\]es/);
    child.stdin?.write("y\r");
    await printed(child, /a number from 1 to 2/);
    child.stdin?.write("2\r");
    const { code, out } = await end;
    expect(code).toBe(0);
    expect(out).toContain("✓ approved");
    expect(out).toContain("✓\u001B[39m blue");
    expect(existsSync(join(bench.work, "allowed"))).toBe(true);
  });

  it("interrupts a waiting turn at Ctrl-C", async () => {
    const child = atTerminal(["run", script({ ask: { shell: "touch forbidden" } })]);
    const end = ended(child);
    await printed(child, /allow\? \[y\]es/);
    child.stdin?.write("\u0003");
    const { code, out } = await end;
    expect(code).toBe(130);
    expect(out).toContain("interrupted");
    expect(existsSync(join(bench.work, "forbidden"))).toBe(false);
  });

  it("takes Ctrl-D as a refusal of the open question", async () => {
    const steps = [
      { ask: { shell: "touch forbidden" } },
      { question: { prompt: "Which?" } },
      { say: "over" },
    ];
    const child = atTerminal(["run", script(...steps)]);
    const end = ended(child);
    await printed(child, /allow\? \[y\]es/);
    child.stdin?.write("\u0004");
    await printed(child, /answer: /);
    child.stdin?.write("\u0004");
    const { code, out } = await end;
    expect(code).toBe(0);
    expect(out).toContain("was denied, because standard input has ended");
    expect(out).toContain("over");
    expect(existsSync(join(bench.work, "forbidden"))).toBe(false);
  });

  it("has colours unless NO_COLOR is set", async () => {
    const coloured = atTerminal(["run", script({ say: "hi" })]);
    coloured.stdin?.end();
    expect((await ended(coloured)).out).toContain("\u001B[32m✓ done");
    const plain = atTerminal(["run", script({ say: "hi" })], { NO_COLOR: "1" });
    plain.stdin?.end();
    expect((await ended(plain)).out).not.toContain("\u001B[3");
  });
});
