import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { sluiceSandbox, type TanStackHandle } from "../../src/tanstack/sandbox/index.ts";
import { processesWith } from "../support/engine.ts";

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
  it("runs commands with and without input, and ends them", async () => {
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

  it("runs sixty-four commands at once, each of which ends at once", async () => {
    const { process } = kept(await sluiceSandbox({ provider, dataDir: await dataFolder() }).create({}));
    const codes = Array.from({ length: 64 }, (_, code) => code);
    const ended = await Promise.all(codes.map((code) => process.exec(`echo ${code}; exit ${code}`)));
    expect(ended.map(({ exitCode, stdout }) => [exitCode, stdout])).toEqual(
      codes.map((code) => [code, `${code}\n`]),
    );
  });

  it("has files, git and ports, and emits file changes (TS-31)", async () => {
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

  it("keeps snapshots beyond its end, forks, and is found again", async () => {
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
    // After a restart of the application, only the disk has the state.
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
