import { execFile, spawn } from "node:child_process";
import { chmod, chown, mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, expect, it } from "vitest";
import { toSeccompFilter } from "../../src/sandbox/bwrap/seccomp.ts";
import { detectBwrap } from "../../src/sandbox/bwrap/detect.ts";
import { chooseProvider, createLocalProvider, defaultProviders } from "../../src/sandbox/index.ts";
import { createSpool } from "../../src/spool/index.ts";
import { processesWith } from "../support/engine.ts";
import { adopt, describeBwrap, makeFolder, makeProvider, makeSandbox } from "./bwrap-bench.ts";
import { egressPrograms, bundles } from "./program.ts";
import { lives, waitFor } from "./workbench.ts";

const run = promisify(execFile);
const isRoot = process.geteuid?.() === 0;
const servers: Server[] = [];

afterEach(async () => {
  for (const server of servers.splice(0)) await new Promise((resolve) => server.close(resolve));
});

function get(port: number): string {
  return `${process.execPath} -e 'fetch("http://127.0.0.1:${port}").then((r) => r.text()).then(console.log, () => process.exit(1))'`;
}

async function serve(text: string): Promise<number> {
  const server = createServer((_, response) => response.end(text));
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}

describeBwrap("the bwrap provider", () => {
  it("names the remedy where it does not work, and never chooses a provider without isolation", async () => {
    expect(await detectBwrap(undefined)).toMatchObject({
      available: false,
      reason: "bubblewrap is not installed",
      remedy: expect.stringContaining("bubblewrap"),
    });
    expect(await detectBwrap("/bin/false")).toMatchObject({ available: false });
    const root = await makeFolder();
    const providers = defaultProviders({ root });
    expect(providers.slice(0, 3).map(({ id }) => id)).toEqual(["bwrap", "docker", "local"]);
    expect((await chooseProvider(providers)).provider.id).toBe("bwrap");
    const broken = { ...providers[0]!, id: "bwrap", detect: () => detectBwrap(undefined) };
    await expect(chooseProvider([broken, createLocalProvider({ root })])).rejects.toMatchObject({
      code: "unsupported_sandbox",
      message: expect.stringMatching(/bubblewrap.*--sandbox local/),
    });
  });

  it("passes neither binds nor variables on any command line", async () => {
    const { sandbox } = await makeSandbox({ env: { TOKEN_OF_SPEC: "hunter2" } });
    await sandbox.spawn({
      launch: { argv: ["/bin/sh", "-c", "echo > ready; sleep 600"], env: { TOKEN_OF_LAUNCH: "hunter3" } },
      wrapper: [],
    });
    await waitFor(() => sandbox.files.stat("ready").catch(() => undefined));
    const pids = await processesWith("SLUICE_SANDBOX=sbx_test");
    expect(pids.length).toBeGreaterThan(3);
    for (const pid of pids) {
      const line = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
      expect(line).not.toMatch(/hunter|--setenv|--bind/);
    }
  });

  it("leaves nothing of a secret on the disk", async () => {
    const { root, sandbox } = await makeSandbox();
    await sandbox.exec("true", { env: { SECRET: "hunter2" } });
    const { stdout } = await run("grep", ["-rl", "hunter2", root]).catch(
      (error: { stdout: string }) => error,
    );
    expect(stdout).toBe("");
    expect((await readdir(join(root, "sbx_test"))).filter((name) => name.startsWith(".sealed"))).toEqual([]);
  });

  it("runs a program from anywhere when its launch needs it, and finds it by its name", async () => {
    const closed = join(await makeFolder(), "closed");
    await mkdir(join(closed, "bin"), { recursive: true, mode: 0o700 });
    await writeFile(join(closed, "bin", "my-agent"), "#!/bin/sh\ncommand -v my-agent > found\n", {
      mode: 0o755,
    });
    const { sandbox } = await makeSandbox();
    const program = join(closed, "bin", "my-agent");
    await expect(sandbox.spawn({ launch: { argv: [program], env: {} }, wrapper: [] })).rejects.toMatchObject({
      code: "agent_not_installed",
    });
    await sandbox.spawn({ launch: { argv: [program], env: {}, needs: [program] }, wrapper: [] });
    const found = await waitFor(async () => {
      const text = await sandbox.files.read("found").catch(() => undefined);
      return text && text.length > 0 && Buffer.from(text).toString("utf8");
    });
    expect(found).toBe(`${program}\n`);
  });

  it.runIf(isRoot)("runs as a user of its own, and in a directory as its owner", async () => {
    const { provider } = await makeProvider();
    const one = adopt(await provider.create({ id: "one" }));
    const two = adopt(await provider.create({ id: "two" }));
    expect(one.owner!.uid).toBeGreaterThan(1_900_000_000);
    expect(one.owner!.uid).not.toBe(two.owner!.uid);
    const directory = join(await makeFolder(), "project");
    await mkdir(directory, { mode: 0o700 });
    await chown(directory, 12_345, 12_346);
    const project = adopt(await provider.create({ id: "three", directory }));
    expect(project.owner).toEqual({ uid: 12_345, gid: 12_346 });
    await project.exec("echo mine > made; id -u");
    await project.files.write("sub/api", "x");
    for (const name of ["made", "sub", "sub/api", "output"]) {
      expect(await stat(join(directory, name)), name).toMatchObject({ uid: 12_345, gid: 12_346 });
    }
    await project.destroy();
    expect((await readdir(directory)).sort()).toEqual(["made", "sub"]);
  });

  it.runIf(isRoot)(
    "works for a server without any right, with what it cannot enforce said",
    { timeout: 60_000 },
    async () => {
      const home = await makeFolder();
      await chown(home, 23_456, 23_456);
      const programs = await egressPrograms();
      await chmod(await bundles(), 0o755);
      const { stdout } = await run(
        "setpriv",
        [
          "--reuid=23456",
          "--regid=23456",
          "--clear-groups",
          process.execPath,
          join(import.meta.dirname, "fixtures", "unprivileged.mjs"),
          join(await bundles(), "sandbox.mjs"),
          JSON.stringify(programs),
        ],
        { cwd: home, env: { PATH: process.env["PATH"] ?? "", HOME: home } },
      );
      const report = JSON.parse(stdout) as Record<string, never> & { exec: { stdout: string } };
      expect(report["detected"]).toEqual({ available: true });
      expect(report["shortcomings"]).toHaveLength(2);
      expect(report.exec.stdout).toMatch(/^1000\n/);
      expect(report.exec.stdout).toMatch(/^Max processes\s+100\s+100/m);
      expect(report.exec.stdout).toMatch(/^Max data size\s+1073741824/m);
      expect(report["background"]).toBe("left\n");
      expect(report["own"]).toBe("xy\n");
      expect(report["still"]).toBe(true);
      expect(report["port"]).toBe("http:");
      expect((await readdir(join(home, "project"))).sort()).toEqual(["count", "from-api", "limits", "made"]);
      expect(await readdir(join(home, "sandboxes"))).toEqual([]);
      expect(await processesWith("27182")).toEqual([]);
    },
  );

  it("keeps exec, agent and ports in one network", async () => {
    const { sandbox } = await makeSandbox();
    await sandbox.files.write(
      "server.cjs",
      `require("http").createServer((q, r) => r.end("hello")).listen(4711)`,
    );
    await sandbox.exec(`${process.execPath} server.cjs > /dev/null 2>&1 &`);
    await waitFor(async () => (await sandbox.exec(get(4711))).stdout === "hello\n");
    expect(await (await fetch(await sandbox.host!(4711))).text()).toBe("hello");
  });

  it("lets an agent reach the named port of this machine, and no other", { timeout: 60_000 }, async () => {
    const [named, other] = [await serve("named"), await serve("other")];
    const { sandbox } = await makeSandbox({ network: { mode: "allow", hosts: [`127.0.0.1:${named}`] } });
    expect((await sandbox.exec(get(named))).stdout).toBe("named\n");
    expect((await sandbox.exec(get(other))).exitCode).toBe(1);
    // A harness may name more than the session did, also later.
    const spool = await createSpool(join(await makeFolder(), "spool"));
    const launch = { argv: ["/bin/sh", "-c", get(other)], env: {}, hosts: [`127.0.0.1:${other}`] };
    await sandbox.spawn({ launch, wrapper: spool.wrapper });
    await waitFor(() => spool.exit());
    expect(await readFile(join(spool.folder, "out"), "utf8")).toBe("other\n");
    expect((await sandbox.exec(get(named))).stdout).toBe("named\n");
  });

  it("has no way out under none, and the host's network under full", async () => {
    const port = await serve("host");
    const dial = `perl -MIO::Socket::INET -e 'exit(IO::Socket::INET->new(PeerAddr => "127.0.0.1:${port}", Timeout => 5) ? 0 : 1)'`;
    const { provider } = await makeProvider();
    const none = adopt(await provider.create({ id: "none", network: { mode: "none" } }));
    expect((await none.exec(dial)).exitCode).toBe(1);
    const full = adopt(await provider.create({ id: "full", network: { mode: "full" } }));
    expect((await full.exec(dial)).exitCode).toBe(0);
    expect((await full.host!(port)).href).toBe(`http://127.0.0.1:${port}/`);
  });

  it("keeps its network while anything of it runs, and nothing once nothing does", async () => {
    const id = `sbx_tied_${process.pid}`;
    const { root, sandbox } = await makeSandbox({ id });
    const holder = async (): Promise<number> =>
      (JSON.parse(await readFile(join(root, id, "network.json"), "utf8")) as { holder: { pid: number } })
        .holder.pid;
    await sandbox.exec("true");
    await waitFor(async () => (await processesWith(id)).length === 0);
    const first = await holder();
    await sandbox.host!(4711);
    await sandbox.exec("(setsid sh -c 'while ! [ -e stop ]; do sleep 0.05; done' > /dev/null 2>&1 &)");
    const second = await holder();
    expect(second).not.toBe(first);
    for (let round = 0; round < 5; round++) await sandbox.exec("true");
    expect(await holder()).toBe(second);
    await sandbox.files.write("stop", "");
    await waitFor(async () => (await processesWith(id)).length === 0);
    expect((await sandbox.exec("echo again")).stdout).toBe("again\n");
  });

  it("makes its network anew when its holder was killed", async () => {
    const { root, sandbox } = await makeSandbox();
    await sandbox.exec("(setsid sleep 600 &)");
    const file = join(root, "sbx_test", "network.json");
    const before = JSON.parse(await readFile(file, "utf8")) as { holder: { pid: number } };
    process.kill(before.holder.pid, "SIGKILL");
    await waitFor(async () => !(await lives(before.holder.pid)));
    expect((await sandbox.exec("echo again")).stdout).toBe("again\n");
    const after = JSON.parse(await readFile(file, "utf8")) as { holder: { pid: number } };
    expect(after.holder.pid).not.toBe(before.holder.pid);
  });

  it("leaves no process, mount, group or folder behind", async () => {
    const { root, provider } = await makeProvider();
    const name = `sbx_round_${process.pid}`;
    for (let round = 0; round < 5; round++) {
      const id = `${name}_${round}`;
      const sandbox = adopt(await provider.create({ id }));
      await sandbox.spawn({ launch: { argv: ["/bin/sleep", "600"], env: {} }, wrapper: [] });
      await sandbox.exec("(setsid sleep 600 &); true");
      await sandbox.host!(4711);
      const record = JSON.parse(await readFile(join(root, id, "sandbox.json"), "utf8")) as {
        cgroup?: string;
        controllers: Record<string, string>;
      };
      await sandbox.destroy();
      for (const group of [record.cgroup, ...Object.values(record.controllers)]) {
        if (group !== undefined) await expect(stat(group)).rejects.toThrow("ENOENT");
      }
    }
    expect(await processesWith(name)).toEqual([]);
    expect(await readdir(root)).toEqual([]);
    const mounts = await readFile("/proc/self/mountinfo", "utf8");
    expect(mounts).not.toContain(join(root, "../.."));
    expect(mounts).not.toMatch(/ - tmpfs sluice /);
  });

  it("has a filter for both machines, and none for others", () => {
    for (const arch of ["x64", "arm64"]) expect(toSeccompFilter({ arch })!.length % 8).toBe(0);
    expect(toSeccompFilter({ arch: "riscv64" })).toBeUndefined();
  });

  it("passes a signal on to the agent behind its spool, and to no other process", async () => {
    const { sandbox } = await makeSandbox();
    const spool = await createSpool(join(await makeFolder(), "spool"));
    await sandbox.spawn({
      launch: {
        argv: ["/bin/sh", "-c", "trap 'echo int; exit 3' INT; echo on; while :; do sleep 0.01; done"],
        env: {},
      },
      wrapper: spool.wrapper,
    });
    await waitFor(async () => (await readFile(join(spool.folder, "out"), "utf8")) === "on\n");
    await sandbox.signal((await spool.pid())!, "SIGINT");
    expect(await waitFor(() => spool.exit())).toEqual({ code: 3 });
    expect(await readFile(join(spool.folder, "out"), "utf8")).toBe("on\nint\n");
    const bystander = spawn("sleep", ["600"], { stdio: "ignore" });
    await expect(sandbox.signal(bystander.pid!, "SIGKILL")).rejects.toMatchObject({
      code: "permission_denied",
    });
    bystander.kill("SIGKILL");
  });
});
