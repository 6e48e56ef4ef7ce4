import { chmodSync, mkdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { amp } from "../../src/harness/amp/harness.ts";
import { findCli } from "../../src/harness/launch/cli.ts";
import type { Harness } from "../../src/harness/port.ts";
import { checkAgent, type Diagnostics } from "../../src/cli/diagnostics.ts";
import { findRemedy } from "../../src/cli/fix.ts";
import { Workbench } from "./workbench.ts";

const VALUE = "sgamp_0123456789_value";

describe("sluice doctor", () => {
  let bench: Workbench;
  beforeEach(() => {
    bench = new Workbench();
  });
  afterEach(() => bench.close());

  it("lists every agent with its version and choices, as text and as JSON", async () => {
    const ran = await bench.run(["doctor", "--json"]);
    expect(ran.code).toBe(0);
    const { agents, sandboxes } = JSON.parse(ran.out) as Diagnostics;
    expect(agents.find(({ id }) => id === "scripted")).toMatchObject({
      ok: true,
      version: expect.stringMatching(/^\d/),
      features: expect.any(Number),
    });
    expect(sandboxes.map(({ id }) => id)).toContain("local");
    const words = await bench.run(["doctor"]);
    for (const { id } of agents) expect(words.out).toMatch(new RegExp(`^[✓✗] ${id} `, "m"));
  });

  it("has the install command of a missing agent, and never a key's value", async () => {
    const path = [dirname(process.execPath), "/usr/bin", "/bin"].join(":");
    const ran = await bench.run(["doctor", "--json"], {
      env: { PATH: path, AMP_API_KEY: VALUE, ANTHROPIC_API_KEY: VALUE },
    });
    expect(ran.out).not.toContain(VALUE);
    for (const agent of (JSON.parse(ran.out) as Diagnostics).agents) {
      if (!agent.ok) expect(agent.hint, agent.id).toMatch(/install|npm|curl|command/);
    }
  });
});

describe("sluice doctor --fix", () => {
  let bench: Workbench;
  beforeEach(() => {
    bench = new Workbench();
  });
  afterEach(() => bench.close());

  it("runs the one command that helps, with --yes", async () => {
    await bench.run(["run", "--agent", "scripted", "hello"]);
    chmodSync(bench.data, 0o755);
    const refused = await bench.run(["doctor", "--fix"]);
    expect(refused).toMatchObject({ code: 2, out: "" });
    expect(refused.err).toContain(`say --yes to run \`chmod 700 ${bench.data}\``);
    expect(statSync(bench.data).mode & 0o777).toBe(0o755);
    const fixed = await bench.run(["doctor", "--fix", "--yes"]);
    expect(fixed).toMatchObject({ code: 0, out: expect.stringContaining("✓ data") });
    expect(fixed.err).toContain(`Running chmod 700 ${bench.data}`);
    expect(statSync(bench.data).mode & 0o777).toBe(0o700);
    expect((await bench.run(["doctor", "--fix"])).err).toContain("There is nothing to fix.");
  });

  it("chooses the remedy of a missing sandbox, and none that is only advice", () => {
    const sandbox = { id: "bwrap", ok: false, isolated: true };
    const diagnostics = (command: string) =>
      ({
        data: { ok: true },
        sandboxes: [{ ...sandbox, command }],
        defaultSandbox: null,
      }) as unknown as Diagnostics;
    expect(findRemedy(diagnostics("apt-get install bubblewrap"))).toBe("apt-get install bubblewrap");
    expect(findRemedy(diagnostics("docker run --security-opt x …"))).toBeUndefined();
    expect(findRemedy({ ...diagnostics("x"), defaultSandbox: "docker" })).toBeUndefined();
  });
});

describe("the diagnostics of one agent", () => {
  let bench: Workbench;
  const { PATH } = process.env;
  beforeEach(() => {
    bench = new Workbench();
    process.env["PATH"] = bench.folder;
  });
  afterEach(async () => {
    process.env["PATH"] = PATH;
    await bench.close();
  });

  it("finds the CLI, its version and the names of its keys", async () => {
    install("echo 1.2.3-test");
    expect(findCli("amp")).toBeDefined();
    const file = join(bench.folder, ".local/share/amp/secrets.json");
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, JSON.stringify({ apiKey: VALUE }));
    const diagnostics = await checkAgent(amp as Harness, { HOME: bench.folder, AMP_API_KEY: VALUE });
    expect(diagnostics).toMatchObject({
      ok: true,
      version: "1.2.3-test",
      credentials: { found: ["AMP_API_KEY", "~/.local/share/amp/secrets.json"] },
      choices: { variants: ["low", "medium", "high", "ultra"] },
    });
    expect(JSON.stringify(diagnostics)).not.toContain(VALUE);
    rmSync(file);
    expect((await checkAgent(amp as Harness, { HOME: bench.folder, AMP_API_KEY: "" })).hint).toBe(
      "no key found: set AMP_API_KEY, or log in with its own CLI (~/.local/share/amp/secrets.json)",
    );
  });

  it("has the install command of a missing agent", async () => {
    const diagnostics = await checkAgent(amp as Harness, { HOME: bench.folder, AMP_API_KEY: VALUE });
    expect(diagnostics).toMatchObject({
      ok: false,
      hint: "npm install -g @ampcode/cli",
      credentials: { found: ["AMP_API_KEY"] },
    });
  });

  it("survives a failing CLI and a throwing adapter", async () => {
    install("echo nonsense; exit 3");
    expect(await checkAgent(amp as Harness, { HOME: bench.folder })).toMatchObject({ ok: true });
    const broken = {
      ...amp,
      detect: () => Promise.reject(new Error("no")),
      launch: () => {
        throw new Error("no");
      },
    };
    expect(await checkAgent(broken as unknown as Harness, {})).toMatchObject({ ok: false, hint: "no" });
  });

  function install(program: string): void {
    const file = join(bench.folder, "amp");
    writeFileSync(file, `#!/bin/sh\n${program}\n`);
    chmodSync(file, 0o755);
  }
});
