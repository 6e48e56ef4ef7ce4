import { execFile } from "node:child_process";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterEach, describe, expect, it } from "vitest";
import { z } from "zod";
import { createScriptedModel } from "../../src/model/index.ts";
import { createLocalProvider, type Sandbox, type SandboxProvider } from "../../src/sandbox/index.ts";
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

async function textOf(stream: AsyncIterable<string>): Promise<string> {
  let text = "";
  for await (const piece of stream) text += piece;
  return text;
}

describe.each(["local", "bwrap"] as const)("sluiceSandbox with %s", (provider) => {
  it("runs commands, waited for or spoken to, and ends them", async () => {
    const dataDir = await dataFolder();
    const place = sluiceSandbox({ provider, dataDir });
    expect(place).toMatchObject({ name: `sluice-${provider}` });
    const handle = kept(await place.create({ id: "one", env: { SECRET: "hidden" } }));
    expect(handle.capabilities).toEqual(place.capabilities());
    expect(handle.capabilities.networkPolicy).toBe(provider === "bwrap");
    await handle.env.set({ MORE: "set" });
    await handle.fs.mkdir("/workspace/deep");
    const told = await handle.process.exec(
      'basename "$(pwd)"; echo "$SECRET $MORE $OWN"; echo bad >&2; exit 3',
      {
        cwd: "/workspace/deep",
        env: { OWN: "own" },
      },
    );
    expect(told).toEqual({ stdout: "deep\nhidden set own\n", stderr: "bad\n", exitCode: 3 });

    const cat = await handle.process.spawn("cat; echo done >&2", { cwd: "/workspace" });
    await cat.stdin.write("first ");
    await cat.stdin.write("and last, without a newline");
    await cat.stdin.end();
    expect(await textOf(cat.stdout)).toBe("first and last, without a newline");
    expect(await textOf(cat.stderr)).toBe("done\n");
    expect(await cat.wait()).toBe(0);

    const gentle = await handle.process.spawn("sleep 63 & sleep 63");
    await gentle.kill();
    expect(await gentle.wait()).toBe(143);
    await gentle.kill();
    const stubborn = await handle.process.spawn("trap '' TERM; echo up; while :; do sleep 64; done");
    for await (const _ of stubborn.stdout) break;
    const abort = new AbortController();
    const aborted = handle.process.exec("sleep 65", { signal: abort.signal });
    await stubborn.kill("SIGKILL");
    expect(await stubborn.wait()).toBe(137);
    abort.abort();
    await expect(aborted).rejects.toThrow("aborted");

    await handle.destroy();
    expect(await processesWith(dataDir)).toEqual([]);
    expect(await place.resume({ id: "one" })).toBeNull();
    expect(await readdir(join(dataDir, "spools"))).toEqual([]);
    expect(await readdir(join(dataDir, "env"))).toEqual([]);
  });

  it("has files, git and ports, and tells of files as they change (TS-31)", async () => {
    const handle = kept(await sluiceSandbox({ provider, dataDir: await dataFolder() }).create({}));
    const { fs, git, process } = handle;
    const seen: string[] = [];
    const watcher = await fs.watch?.("/workspace", ({ type, path }) => void seen.push(`${type} ${path}`));
    await fs.write("/workspace/a/b.txt", "text");
    await fs.write("/workspace/.tanstack-mcp-bridge-run.json", "{}");
    await fs.write("/workspace/bytes", new Uint8Array([1, 2, 255]));
    expect(await fs.read("/workspace/a/b.txt")).toBe("text");
    expect([...(await fs.readBytes("/workspace/bytes"))]).toEqual([1, 2, 255]);
    await fs.rename("/workspace/bytes", "/workspace/a/b.txt");
    expect(await fs.list("/workspace/a")).toEqual([
      { name: "b.txt", path: "/workspace/a/b.txt", type: "file" },
    ]);
    await fs.remove("/workspace/a");
    await fs.remove("/workspace/a");
    expect(await fs.exists("/workspace/a/b.txt")).toBe(false);
    await expect(fs.read("/etc/passwd")).rejects.toThrow("outside of the sandbox");
    await fs.write("/workspace/last", "");
    await expect.poll(() => seen.at(-1)).toBe("create /workspace/last");
    expect(seen.filter((line) => line.includes(".tanstack"))).toEqual([]);
    await watcher?.stop();
    for (const path of ["last", ".tanstack-mcp-bridge-run.json"]) await fs.remove(`/workspace/${path}`);

    const author = "git config user.name t && git config user.email t@example.com";
    await process.exec(`mkdir -p ~/origin && cd ~/origin && git init -q -b main && ${author}`);
    const origin = (await process.exec("cd ~/origin && pwd")).stdout.trim();
    await fs.write(`${origin}/f.txt`, "1\n");
    await git.add(["f.txt"], origin);
    await git.commit("-first", origin);
    await git.clone({ url: `file://${origin}` });
    expect(await git.branch()).toBe("main");
    expect(await git.status("/workspace")).toBe("");
    expect(await fs.read("/workspace/f.txt")).toBe("1\n");
    await expect(git.clone({ url: origin })).rejects.toThrow("already");
    await expect(git.clone({ url: "--upload-pack=x", dir: "/workspace/c" })).rejects.toThrow("option of git");
    await expect(git.push(origin)).rejects.toThrow("git push failed");

    const listen =
      'require("http").createServer((q, r) => r.end("inside")).listen(0, "127.0.0.1", function () {';
    const server = await process.spawn(`node -e '${listen} console.log(this.address().port) })'`);
    let port = 0;
    for await (const line of server.stdout) if ((port = Number(line)) > 0) break;
    const { url } = await handle.ports.connect(port);
    expect(await (await fetch(url)).text()).toBe("inside");
  });

  it("keeps snapshots that outlive it, forks, and is found again", async () => {
    const dataDir = await dataFolder();
    const place = sluiceSandbox({ provider, dataDir });
    const first = await place.create({ id: "kept", env: { SECRET: "hidden-value" } });
    await first.fs.write("/workspace/node_modules/p/index.js", "made by a set-up");
    await first.fs.write("/workspace/.tanstack-mcp-bridge-r.json", "a token");
    const { id: snapshotId, label } = await first.snapshot("after-setup");
    expect(label).toBe("after-setup");
    const fork = kept(await first.fork());
    expect((await fork.process.exec("cat node_modules/p/index.js; echo; echo $SECRET")).stdout).toBe(
      "made by a set-up\nhidden-value\n",
    );
    await fork.fs.write("/workspace/own", "");
    expect(await first.fs.exists("/workspace/own")).toBe(false);
    // Another life of the application: nothing is known but what lies on the disk.
    const later = await sluiceSandbox({ provider, dataDir }).resume({ id: "kept" });
    expect((await later?.process.exec("echo $SECRET"))?.stdout).toBe("hidden-value\n");
    await place.destroy({ id: "kept" });
    expect(await place.resume({ id: "kept" })).toBeNull();
    const restored = kept(await place.restoreSnapshot({ snapshotId }));
    expect(await restored.fs.list("/workspace/node_modules")).toHaveLength(1);
    expect(await restored.fs.exists("/workspace/.tanstack-mcp-bridge-r.json")).toBe(false);
    expect((await restored.process.exec("echo =$SECRET=")).stdout).toBe("==\n");
    await expect(place.restoreSnapshot({ snapshotId: "nothing" })).rejects.toThrow();
    expect(await readdir(join(dataDir, "sandboxes"))).toHaveLength(2);
  });
});

describe("sluiceSandbox", () => {
  it("says what a sandbox cannot do in TanStack's words", async () => {
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
    // What could not be made whole is not there.
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
      // Their bridge's token lies in the workspace for a moment: of our sandboxes nobody is told of it.
      expect(JSON.stringify(chunks)).not.toContain(".tanstack-mcp-bridge");
      const left = await sandbox.ensure(thread);
      expect((await left.process.exec("ls -A")).stdout).not.toContain("bridge");
      await sandbox.destroy(thread);
      expect(await processesWith(dataDir)).toEqual([]);
    },
  );
});

/** What `sluiceSandbox` answers, given to their own functions. */
const TYPED = `import { defineSandbox, watchWorkspace, type SandboxProvider } from "@tanstack/ai-sandbox";
import type { TanStackHandle, TanStackProvider } from "sluice/contract";
declare const ours: TanStackProvider;
export const provider: SandboxProvider = ours;
export const sandbox = defineSandbox({ id: "typed", provider: ours });
export const watch = (handle: TanStackHandle) => watchWorkspace(handle, { onEvent: () => {} });
`;

/** A real sandbox that lies elsewhere: without folders on this host, and without a way to its ports. */
function withoutExtras(provider: SandboxProvider): SandboxProvider {
  return {
    id: "elsewhere",
    detect: () => provider.detect(),
    create: async (spec) => strip(await provider.create(spec)),
    connect: async (id) => provider.connect(id).then((found) => found && strip(found)),
  };
}

function strip(sandbox: Sandbox): Sandbox {
  return new Proxy(sandbox, {
    get(target, name) {
      if (name === "folders" || name === "host") return undefined;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
}
