import { execFile } from "node:child_process";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterEach, describe, expect, it } from "vitest";
import { z } from "zod";
import { createScriptedModel } from "../../src/model/index.ts";
import { createLocalProvider, type HostSandbox, type HostProvider } from "../../src/sandbox/index.ts";
import { sluiceSandbox, type TanStackHandle } from "../../src/tanstack/sandbox/index.ts";
import { requireAgent } from "../support/agents.ts";
import { processesWith, script } from "../support/engine.ts";
import { createRepository } from "./repository.ts";
import { collect, nameOf, requireStack, type ToolContext } from "./stack.ts";

const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end();
});

async function dataFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-tanstack-"));
  ends.push(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

function kept(handle: TanStackHandle): TanStackHandle {
  ends.push(() => handle.destroy());
  return handle;
}

describe("sluiceSandbox", () => {
  it("reports missing capabilities with TanStack's error", async () => {
    const dataDir = await dataFolder();
    const bare = withoutExtras(createLocalProvider({ root: join(dataDir, "sandboxes") }));
    const place = sluiceSandbox({ provider: bare, dataDir });
    expect(place.capabilities()).toMatchObject({ ports: false, snapshots: false, fork: false });
    const handle = kept(await place.create({}));
    expect(handle.capabilities).toMatchObject({ ports: false, snapshots: false, fork: false, exec: true });
    const unsupported = { name: "UnsupportedCapabilityError", provider: place.name };
    await expect(handle.ports.connect(1)).rejects.toMatchObject({ ...unsupported, capability: "ports" });
    await expect(handle.snapshot()).rejects.toMatchObject({ ...unsupported, capability: "snapshots" });
    await expect(handle.fork()).rejects.toMatchObject(unsupported);
    await expect(handle.fs.watch?.("/workspace", () => {})).rejects.toMatchObject(unsupported);
    expect(() => sluiceSandbox({ provider: "podman" as "docker" })).toThrow("Choose one of bwrap");
    await expect(sluiceSandbox({ dataDir, programs: ["no-such-program"] }).create({})).rejects.toThrow(
      "PATH",
    );
    const absent = { workspace: { source: { type: "local", path: join(dataDir, "absent") } } };
    await expect(sluiceSandbox({ provider: "local", dataDir }).create(absent)).rejects.toThrow("absent");
    // A sandbox that failed to start does not exist.
    expect(await readdir(join(dataDir, "sandboxes"))).toEqual([handle.id]);
  });

  it("is a provider by TanStack's own types, without a cast", { timeout: 120_000 }, async ({ skip }) => {
    const required = await requireStack();
    if ("reason" in required) return skip(required.reason);
    const folder = await dataFolder();
    await writeFile(join(folder, "check.ts"), TYPED);
    const modules = join(required.folder, "node_modules");
    const compilerOptions = {
      strict: true,
      noEmit: true,
      skipLibCheck: true,
      target: "ES2023",
      module: "NodeNext",
      moduleResolution: "NodeNext",
      types: ["node"],
      typeRoots: [resolve(import.meta.dirname, "../../node_modules/@types")],
      paths: {
        "sluice/contract": [resolve(import.meta.dirname, "../../src/tanstack/sandbox/contract.ts")],
        "@tanstack/ai-sandbox": [join(modules, "@tanstack/ai-sandbox/dist/esm/index.d.ts")],
      },
    };
    await writeFile(join(folder, "package.json"), '{ "type": "module" }');
    await writeFile(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["check.ts"] }));
    const tsc = resolve(import.meta.dirname, "../../node_modules/typescript/bin/tsc");
    const run = promisify(execFile)(process.execPath, [tsc, "-p", folder]);
    expect(
      await run.then(
        ({ stdout }) => stdout,
        (error: { stdout: string }) => error.stdout,
      ),
    ).toBe("");
  });

  it(
    "lets TanStack's own adapter run the real claude in our sandbox, its tools and all",
    { timeout: 120_000 },
    async ({ skip }) => {
      const required = await requireStack();
      if ("reason" in required) return skip(required.reason);
      const { reason } = requireAgent("claude");
      if (reason !== undefined) return skip(reason);
      const { stack } = required;
      const dataDir = await dataFolder();
      const repository = await createRepository();
      const model = await createScriptedModel();
      ends.push(repository.remove, () => model.close());
      const sandbox = stack.defineSandbox({
        id: "real",
        provider: sluiceSandbox({
          provider: "bwrap",
          dataDir,
          programs: ["claude"],
          network: { mode: "allow", hosts: [new URL(model.url).host] },
        }),
        workspace: stack.defineWorkspace({
          source: { type: "local", path: repository.folder },
          setup: ["export MADE=by-the-set-up", 'echo "$MADE" > made.txt'],
        }),
        fileEvents: { diff: true },
      });
      const thread = { threadId: "real", runId: "real-run" };
      ends.push(() => sandbox.destroy(thread));
      const asked: unknown[] = [];
      const lookup = stack
        .toolDefinition({ name: "lookup", description: "d", inputSchema: z.object({ q: z.string() }) })
        .server((input: unknown, context?: ToolContext) => {
          asked.push(input);
          context?.emitCustomEvent("code_mode:console", { message: "mid-way" });
          return { found: true };
        });
      const steps = [
        { shell: 'cat made.txt; test "$(id -u)" != 0 && echo "$HOME"; echo 2 > a.txt' },
        { mcp: { server: "tanstack", tool: "lookup", input: { q: "x" } } },
        { say: "bye" },
      ];
      const env = {
        ANTHROPIC_BASE_URL: model.url,
        ANTHROPIC_API_KEY: "sk-ant-any-key-will-do",
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
      };
      const chunks = await collect(
        stack.chat({
          adapter: stack.claudeCodeText("claude-sonnet-4-5", { env }),
          messages: [{ role: "user", content: script(...steps) }],
          tools: [lookup],
          ...thread,
          middleware: [stack.withSandbox(sandbox)],
        }),
      );
      const results = chunks.filter(({ type }) => type === "TOOL_CALL_RESULT").map(({ content }) => content);
      expect(results[0]).toContain("by-the-set-up\n/home/user");
      expect(asked).toEqual([{ q: "x" }]);
      expect(results.at(-1)).toContain("found");
      const names = chunks.map(nameOf);
      expect(names).toContain("code_mode:console");
      expect(names).toContain("RUN_FINISHED");
      const files = chunks.filter(({ name }) => name === "sandbox.file").map(({ value }) => value);
      expect(files).toContainEqual(expect.objectContaining({ type: "change", path: "/workspace/a.txt" }));
      expect(chunks.find(({ name }) => name === "file.changed")?.value).toMatchObject({
        diff: expect.stringContaining("+2") as string,
      });
      // TanStack's tool server writes its token into the workspace for a moment; our sandboxes emit no event for it.
      expect(JSON.stringify(chunks)).not.toContain(".tanstack-mcp-bridge");
      const left = await sandbox.ensure(thread);
      expect((await left.process.exec("ls -A")).stdout).not.toContain("bridge");
      await sandbox.destroy(thread);
      expect(await processesWith(dataDir)).toEqual([]);
    },
  );
});

/** The results of `sluiceSandbox` in TanStack's own functions. */
const TYPED = `import { defineSandbox, watchWorkspace, type SandboxProvider } from "@tanstack/ai-sandbox";
import type { TanStackHandle, TanStackProvider } from "sluice/contract";
declare const ours: TanStackProvider;
export const provider: SandboxProvider = ours;
export const sandbox = defineSandbox({ id: "typed", provider: ours });
export const watch = (handle: TanStackHandle) => watchWorkspace(handle, { onEvent: () => {} });
`;
/** A real sandbox without folders on this host and without reachable ports. */
function withoutExtras(provider: HostProvider): HostProvider {
  return {
    id: "elsewhere",
    detect: () => provider.detect(),
    create: async (spec) => strip(await provider.create(spec)),
    connect: async (id) => provider.connect(id).then((found) => found && strip(found)),
  };
}
function strip(sandbox: HostSandbox): HostSandbox {
  return new Proxy(sandbox, {
    get(target, name) {
      if (name === "folders" || name === "host") return undefined;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
}
