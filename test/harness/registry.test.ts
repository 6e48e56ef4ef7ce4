import { existsSync, readdirSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { SluiceError } from "../../src/contract/index.ts";
import { coverageOf, FEATURES } from "../../src/harness/coverage.ts";
import type { Harness } from "../../src/harness/port.ts";
import { findHarness, harnesses } from "../../src/harness/registry.ts";
import { findOwnProgram } from "../../src/harness/launch/executable.ts";
import { scripted } from "../../src/harness/scripted/harness.ts";
import { sample } from "./scripted/sample.ts";
import { withSample } from "./samples.ts";

describe("the registry", () => {
  it("finds each harness by its id, which is unique", () => {
    for (const harness of harnesses) expect(findHarness(harness.id)).toBe(harness);
    expect(new Set(harnesses.map((harness) => harness.id)).size).toBe(harnesses.length);
  });

  it.each([
    ["scriptd", /There is no agent "scriptd"\. Did you mean "scripted"\? Known agents: .*scripted/],
    ["Scripted", /Did you mean "scripted"/],
    ["zzz", /There is no agent "zzz"\. Known agents: .*scripted/],
    ["", /There is no agent ""\. Known agents/],
  ])("refuses %j and names what there is", (id, message) => {
    const error = catchError(() => findHarness(id));
    expect(error).toBeInstanceOf(SluiceError);
    expect(error).toMatchObject({
      code: "unsupported_agent",
      status: 400,
      message: expect.stringMatching(message),
    });
  });
});

describe("coverage", () => {
  it("is computed: the scripted agent has every feature", () => {
    expect(coverageOf(withSample(scripted as Harness))).toEqual(
      Object.fromEntries(FEATURES.map((feature) => [feature, true])),
    );
  });

  it.each(harnesses)("of $id follows its sample", (harness) => {
    expect(coverageOf(harness)).toEqual(coverageOf(withSample(harness)));
  });

  it("is computed: an adapter that understands and says nothing has none", () => {
    const mute: Harness = {
      ...withSample(scripted as Harness),
      launch: () => ({ argv: ["mute"], env: {} }),
      decode: (state) => ({ state, facts: [] }),
      encode: () => undefined,
    };
    expect(coverageOf(mute)).toEqual(Object.fromEntries(FEATURES.map((feature) => [feature, false])));
  });

  it("follows the sample", () => {
    const quiet: Harness = {
      ...(scripted as Harness),
      sample: sample.filter((line) => !/thinking|plan|mcp__|question/.test(line.text)),
    };
    const coverage = coverageOf(quiet);
    expect(FEATURES.filter((feature) => !coverage[feature])).toEqual([
      "questions",
      "reasoning",
      "mcpTools",
      "plans",
    ]);
  });
});

describe("launching the scripted agent", () => {
  const context = { workspace: "/workspace", home: "/home/agent" };

  it("runs the bundled file with the Node that runs us", () => {
    const { argv, env, files } = scripted.launch({ agent: "scripted" }, context);
    expect(argv).toEqual([process.execPath, resolve(import.meta.dirname, "../../dist/agents/scripted.cjs")]);
    expect(env).toEqual({ HOME: "/home/agent" });
    expect(files).toEqual([]);
  });

  it("passes the session's settings on, and closes the MCP configuration to others", () => {
    const mcp = { s: { command: "server" } };
    const spec = { agent: "scripted", model: "m", variant: "high", mcp, env: { A: "b", HOME: "/other" } };
    const { argv, env, files } = scripted.launch(spec, { ...context, resume: "abc" });
    expect(argv.slice(2)).toEqual([
      "--resume=abc",
      "--model=m",
      "--variant=high",
      "--mcp-config=/home/agent/.scripted/mcp.json",
    ]);
    expect(env).toEqual({ A: "b", HOME: "/home/agent" });
    expect(files).toEqual([
      { path: ".scripted/mcp.json", content: JSON.stringify({ mcpServers: mcp }), mode: 0o600 },
    ]);
  });

  it("is detected when its file exists, and otherwise names the remedy", async () => {
    const detected = await scripted.detect();
    const { path, version } = findOwnProgram();
    expect(detected).toEqual(
      existsSync(path) ? { installed: true, version } : { installed: false, hint: "npm run build" },
    );
  });

  it("bundles from files of its own folder and Node's own modules", () => {
    const folder = resolve(import.meta.dirname, "../../src/scripted-agent");
    const names = readdirSync(folder, { recursive: true, encoding: "utf8" });
    for (const name of names.filter((name) => name.endsWith(".ts"))) {
      const text = readFileSync(resolve(folder, name), "utf8");
      for (const [statement, specifier] of text.matchAll(/^import [^;]*? from "([^"]+)";/gm)) {
        const isTypesOnly = statement.startsWith("import type");
        // Types are gone once it is built; the others are small files without imports of their own.
        expect(specifier, name).toMatch(
          isTypesOnly
            ? /^(node:|\.\/|\.\.\/[\w-]+\.ts$|.*\/contract\/index\.ts$)/
            : /^(node:|\.\/|\.\.\/[\w-]+\.ts$|.*\/contract\/tool-(rule|names)\.ts$|.*\/text\/[\w-]+\.ts$)/,
        );
      }
    }
  });
});

function catchError(run: () => unknown): unknown {
  try {
    run();
  } catch (error) {
    return error;
  }
  throw new Error("nothing was thrown");
}
