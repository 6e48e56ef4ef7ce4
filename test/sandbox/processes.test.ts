import { access, mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { createLocalProvider } from "../../src/sandbox/index.ts";
import { Cgroup } from "../../src/sandbox/host/processes/cgroup.ts";
import { toFolderName, type SandboxRecord } from "../../src/sandbox/host/folder.ts";
import { createSpool } from "../../src/spool/index.ts";
import { lives, makeFolder, makeSandbox, readPids, spawnScript, waitFor } from "./workbench.ts";

const hasCgroup = (await Cgroup.locate("sluice-probe")) !== undefined;

/** Children that leave by every door; each notes its pid. */
const ESCAPES = `
note='echo $$ >> pids; exec sleep 600'
sh -c "$note" &
setsid sh -c "$note" &
nohup sh -c "$note" > /dev/null 2>&1 &
setsid nohup sh -c "$note" > /dev/null 2>&1 &
(setsid sh -c "sh -c '$note' &" &)
(setsid sh -c "trap '' TERM HUP INT; echo \\$\\$ >> pids; while :; do sleep 1; done" &)
while [ "$(cat pids 2> /dev/null | wc -l)" -lt 6 ]; do sleep 0.01; done
`;

describe("the local sandbox", () => {
  it("ends every process, also those that try to escape", async () => {
    const { sandbox } = await makeSandbox();
    await spawnScript(sandbox, ESCAPES);
    const pids = await readPids(sandbox, "pids");
    expect(pids).toHaveLength(6);
    for (const pid of pids) expect(await lives(pid)).toBe(true);
    await sandbox.killAll();
    for (const pid of pids) expect(await lives(pid)).toBe(false);
    await sandbox.killAll();
  });

  it("ends them without a cgroup too", async () => {
    const { root, provider, sandbox } = await makeSandbox();
    const file = join(root, "sbx_test", "sandbox.json");
    const { cgroup: _none, ...record } = JSON.parse(await readFile(file, "utf8")) as SandboxRecord;
    await writeFile(file, JSON.stringify(record));
    const plain = (await provider.connect(sandbox.id))!;
    // In the group of the leader, a cleared environment does not help either.
    await spawnScript(
      plain,
      `${ESCAPES}\nenv -i sh -c 'echo $$ > bare; exec sleep 600' &\nwhile ! [ -s bare ]; do sleep 0.01; done`,
    );
    const pids = [...(await readPids(plain, "pids")), ...(await readPids(plain, "bare"))];
    const restarted = (await createLocalProvider({ root }).connect(sandbox.id))!;
    await restarted.killAll();
    for (const pid of pids) expect(await lives(pid)).toBe(false);
  });

  it.runIf(process.platform === "linux")(
    "is as old as its first making, also when it is taken over",
    async () => {
      const { root, provider, sandbox } = await makeSandbox();
      const file = join(root, "sbx_test", "sandbox.json");
      const read = async (): Promise<SandboxRecord> =>
        JSON.parse(await readFile(file, "utf8")) as SandboxRecord;
      const record = await read();
      const since = { boot: record.since?.boot ?? "", start: (record.since?.start ?? 0) - 1_000 };
      expect(since.boot).not.toBe("");
      await writeFile(file, JSON.stringify({ ...record, since }));
      await provider.create({ id: sandbox.id });
      expect((await read()).since).toEqual(since);
    },
  );

  it.runIf(hasCgroup)(
    "ends a process that cleared its environment and left its session, and removes the group",
    async () => {
      const { root, sandbox } = await makeSandbox();
      await spawnScript(
        sandbox,
        `(env -i setsid sh -c 'sh -c "echo \\$\\$ > bare; exec sleep 600" &' &)\nwhile ! [ -s bare ]; do sleep 0.01; done`,
      );
      const [pid = 0] = await readPids(sandbox, "bare");
      expect(await readFile(`/proc/${pid}/environ`, "utf8")).not.toContain("SLUICE");
      await sandbox.killAll();
      expect(await lives(pid)).toBe(false);
      const record = JSON.parse(
        await readFile(join(root, "sbx_test", "sandbox.json"), "utf8"),
      ) as SandboxRecord;
      await expect(access(record.cgroup!)).rejects.toThrow("ENOENT");
    },
  );

  it("is found again by another server, which can end the processes of the first", async () => {
    const { root, sandbox } = await makeSandbox({ id: "a:b.c", env: { KEPT: "yes" } });
    await spawnScript(sandbox, ESCAPES);
    const pids = await readPids(sandbox, "pids");
    const again = (await createLocalProvider({ root }).connect("a:b.c"))!;
    expect(again.paths).toEqual(sandbox.paths);
    expect((await again.exec("echo $KEPT")).stdout).toBe("yes\n");
    await again.killAll();
    for (const pid of pids) expect(await lives(pid)).toBe(false);
    expect(await createLocalProvider({ root }).connect("nobody")).toBeUndefined();
  });

  it("leaves the processes of another sandbox with the same id alone", async () => {
    const one = await makeSandbox();
    const other = await makeSandbox();
    await spawnScript(one.sandbox, "echo $$ > pids");
    await other.sandbox.killAll();
    const [pid = 0] = await readPids(one.sandbox, "pids");
    expect(await lives(pid)).toBe(true);
    await expect(other.sandbox.signal(pid, "SIGTERM")).rejects.toMatchObject({ code: "permission_denied" });
    expect(await lives(pid)).toBe(true);
  });

  it("does not refuse a process that ends during the look", async () => {
    const { sandbox } = await makeSandbox();
    await spawnScript(sandbox, "(while :; do sleep 0.001 & echo $! >> pids; wait; done) &");
    await waitFor(() => readPids(sandbox, "pids").catch(() => undefined));
    for (let looks = 0; looks < 500; looks += 1) {
      const pids = (await readFile(join(sandbox.paths.workspace, "pids"), "utf8")).trimEnd().split("\n");
      await sandbox.signal(Number(pids.at(-1)), "SIGCONT");
    }
    await sandbox.killAll();
  });

  it("gives a process no variable of the server's", async () => {
    process.env["SERVER_SECRET"] = "hunter2";
    const { sandbox } = await makeSandbox({ env: { FROM_SPEC: "1" } });
    await spawnScript(sandbox, "tr '\\0' '\\n' < /proc/self/environ > env", { FROM_LAUNCH: "2" });
    const lines = (await readFile(join(sandbox.paths.workspace, "env"), "utf8")).trim().split("\n");
    const names = lines.map((line) => line.split("=")[0] ?? "").filter((name) => !name.startsWith("LC_"));
    const own = new Set(["PWD", "OLDPWD", "SHLVL", "_"]);
    expect(names.filter((name) => !own.has(name)).sort()).toEqual([
      "FROM_LAUNCH",
      "FROM_SPEC",
      "HOME",
      "LANG",
      "PATH",
      "SLUICE_SANDBOX",
      "SLUICE_SANDBOX_KEY",
      "TERM",
      "TMPDIR",
      "USER",
    ]);
    expect(lines).toContain(`HOME=${sandbox.paths.home}`);
    expect(lines).toContain("SLUICE_SANDBOX=sbx_test");
    expect((await sandbox.exec("env")).stdout).not.toContain("hunter2");
    delete process.env["SERVER_SECRET"];
  });

  it("runs a spooled process in the workspace and signals its group", async () => {
    const { sandbox } = await makeSandbox();
    const spool = await createSpool(join(await makeFolder(), "spool"));
    const launch = {
      argv: ["sh", "-c", "pwd; cat ~/.agent/config; exec sleep 600"],
      env: {},
      files: [{ path: ".agent/config", content: "configured\n", mode: 0o640 }],
    };
    await sandbox.spawn({ launch, wrapper: spool.wrapper });
    const config = join(sandbox.paths.home, ".agent/config");
    await waitFor(async () => (await readFile(join(spool.folder, "out"), "utf8")).includes("configured\n"));
    expect((await stat(config)).mode & 0o777).toBe(0o640);
    await sandbox.signal((await spool.pid())!, "SIGINT");
    const lines: string[] = [];
    let exit: unknown;
    for await (const batch of spool.follow({ from: 0, signal: new AbortController().signal })) {
      lines.push(...batch.lines.map((line) => line.text));
      exit = batch.exit;
    }
    expect(lines).toEqual([sandbox.paths.workspace, "configured"]);
    expect(exit).toEqual({ signal: "SIGINT" });
    await sandbox.signal((await spool.pid())!, "SIGINT");
  });

  it("refuses a missing program, and files outside of the home", async () => {
    const { sandbox } = await makeSandbox();
    const spawn = (argv: string[], path?: string): Promise<void> =>
      sandbox.spawn({
        launch: { argv, env: {}, ...(path ? { files: [{ path, content: "x" }] } : {}) },
        wrapper: [],
      });
    await expect(spawn(["no-such-agent"])).rejects.toMatchObject({ code: "agent_not_installed" });
    await expect(spawn(["true"], "../evil")).rejects.toMatchObject({ code: "permission_denied" });
    await expect(spawn(["true"], "/etc/evil")).rejects.toMatchObject({ code: "permission_denied" });
  });

  it("works in a directory of the user's, and never removes it", async () => {
    const directory = join(await makeFolder(), "project");
    const { provider, root } = await makeSandbox();
    await expect(provider.create({ id: "x", directory })).rejects.toMatchObject({ code: "invalid_request" });
    await expect(provider.create({ id: "x", directory: "project" })).rejects.toMatchObject({
      code: "invalid_request",
    });
    await expect(provider.create({ id: "x", directory: root })).rejects.toMatchObject({
      code: "invalid_request",
    });
    await mkdir(directory);
    const sandbox = await provider.create({ id: "x", directory });
    expect((await sandbox.exec("pwd; echo hi > made")).stdout).toBe(`${directory}\n`);
    await sandbox.destroy();
    expect(await readdir(directory)).toEqual(["made"]);
    expect(await provider.connect("x")).toBeUndefined();
    expect(await readdir(root)).toEqual(["sbx_test"]);
  });

  it("stands still while paused, with every process that left the group", async () => {
    const { sandbox } = await makeSandbox();
    const tick = "while :; do echo x >> $0; sleep 0.01; done";
    await spawnScript(
      sandbox,
      `sh -c '${tick}' one &\nsetsid sh -c '${tick}' two &\nwhile ! [ -s one -a -s two ]; do sleep 0.01; done`,
    );
    const sizes = async (): Promise<number[]> =>
      Promise.all(["one", "two"].map(async (name) => (await stat(join(sandbox.paths.workspace, name))).size));
    await sandbox.pause!();
    const before = await sizes();
    await sleep(100);
    expect(await sizes()).toEqual(before);
    await sandbox.resume!();
    await waitFor(async () => (await sizes()).every((size, index) => size > (before[index] ?? 0)));
    await sandbox.pause!();
    await sandbox.killAll();
  });

  it("says where a port is", async () => {
    const { sandbox } = await makeSandbox();
    expect((await sandbox.host!(8080)).href).toBe("http://127.0.0.1:8080/");
  });

  it("has a folder closed to others, whose name is safe", async () => {
    const { root } = await makeSandbox();
    for (const name of ["", "workspace", "home", "uploads"]) {
      expect((await stat(join(root, "sbx_test", name))).mode & 0o777).toBe(0o700);
    }
    expect((await stat(join(root, "sbx_test", "sandbox.json"))).mode & 0o777).toBe(0o600);
    const names = ["..", ".", "a/b", "a:b", "a.b", "a~3ab", "-x", "ü".repeat(100), "ü".repeat(101)].map(
      toFolderName,
    );
    expect(new Set(names).size).toBe(names.length);
    for (const name of names) expect(name).toMatch(/^[A-Za-z0-9_~][A-Za-z0-9_.~-]{0,100}$/);
  });
});

describe("exec", () => {
  it("gives output, exit code and input", async () => {
    const { sandbox } = await makeSandbox();
    expect(await sandbox.exec("cat; echo no >&2; exit 3", { input: "in" })).toEqual({
      exitCode: 3,
      stdout: "in",
      stderr: "no\n",
      timedOut: false,
    });
    expect((await sandbox.exec("kill -9 $$")).exitCode).toBe(137);
    await mkdir(join(sandbox.paths.workspace, "sub"));
    const inSub = await sandbox.exec("pwd; echo $X", { cwd: "/workspace/sub", env: { X: "1" } });
    expect(inSub.stdout).toBe(`${sandbox.paths.workspace}/sub\n1\n`);
    await expect(sandbox.exec("true", { cwd: "/etc" })).rejects.toMatchObject({ code: "permission_denied" });
  });

  it("ends the whole group at its timeout or when it is aborted", async () => {
    const { sandbox } = await makeSandbox();
    const result = await sandbox.exec("sleep 600 & echo $! > pids; wait", { timeoutMs: 300 });
    expect(result).toMatchObject({ timedOut: true, exitCode: 137 });
    const [first = 0] = await readPids(sandbox, "pids");
    await waitFor(async () => !(await lives(first)));

    const abort = new AbortController();
    const aborted = sandbox.exec("sleep 600 & echo $! > more; wait", { signal: abort.signal });
    const [second = 0] = await waitFor(() => readPids(sandbox, "more").catch(() => undefined));
    abort.abort(new Error("enough"));
    await expect(aborted).rejects.toThrow("enough");
    await waitFor(async () => !(await lives(second)));
  });

  it("keeps no more output than asked for and never holds the command up", async () => {
    const { sandbox } = await makeSandbox();
    const result = await sandbox.exec("head -c 3000000 /dev/zero | tr '\\0' x; echo done >&2", {
      maxOutputBytes: 1_000,
    });
    expect(result.stdout).toBe("x".repeat(1_000));
    expect(result.stderr).toMatch(/^done\n\n\[stdout was cut after 1000 bytes\]/);
  });

  it("does not wait for its background processes, which killAll ends", async () => {
    const { sandbox } = await makeSandbox();
    const result = await sandbox.exec("(setsid sleep 600 & echo $!) ; echo bye");
    expect(result.exitCode).toBe(0);
    const pid = Number(result.stdout.split("\n")[0]);
    expect(result.stdout).toContain("bye");
    await sandbox.killAll();
    expect(await lives(pid)).toBe(false);
  });
});
