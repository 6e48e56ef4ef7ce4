import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { createServer, type AddressInfo, type Server } from "node:net";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { CLONE, CLONE3, DENIED } from "../../src/sandbox/bwrap/seccomp.ts";
import { Controllers } from "../../src/sandbox/host/processes/controllers.ts";
import type { ExecResult, HostSandbox } from "../../src/sandbox/index.ts";
import { createSpool } from "../../src/spool/index.ts";
import { adopt, describeBwrap, makeFolder, makeProvider, makeSandbox } from "./bwrap-bench.ts";
import { lives, waitFor } from "./workbench.ts";

const MB = 1024 * 1024;

// Attempts that change nothing should one ever succeed: a setting is written as it is, a trigger is only opened.
const KEEP_CORE_PATTERN =
  'f=/proc/sys/kernel/core_pattern; now=$(cat $f); [ -n "$now" ] || now=core; echo "$now" > $f';
const OPEN_SYSRQ = ": >> /proc/sysrq-trigger";
const groups = await Controllers.locate("sluice-probe", undefined);
const servers: Server[] = [];

async function listen(where: { host: string; port: number } | { path: string }): Promise<Server> {
  const server = createServer((socket) => socket.on("error", () => {}).end("host\n"));
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(where, resolve));
  return server;
}

/** Whether the same attempt succeeds on the host: only then does a refusal mean something. */
async function onHost(command: string): Promise<number> {
  const child = spawn("/bin/sh", ["-c", command], { stdio: "ignore" });
  const [code] = (await once(child, "exit")) as [number];
  return code;
}

async function refused(sandbox: HostSandbox, command: string): Promise<ExecResult> {
  const result = await sandbox.exec(command);
  expect(result.exitCode, `${command}\n${result.stdout}`).not.toBe(0);
  return result;
}

afterEach(async () => {
  for (const server of servers.splice(0)) await new Promise((resolve) => server.close(resolve));
});

describeBwrap("an agent that wants out", () => {
  it("cannot read the host's files, by any way of writing their path", async () => {
    const { sandbox } = await makeSandbox();
    for (const path of [
      "/etc/shadow",
      "/etc/sudoers",
      "/root",
      "/var/log",
      "/boot",
      "/sys",
      "/work",
      "/opt",
    ]) {
      await refused(sandbox, `ls ${path}`);
    }
    expect((await refused(sandbox, "cat /proc/1/root/etc/shadow")).stdout).toBe("");
    await refused(sandbox, "cat /proc/self/cwd/../../../../../../etc/shadow");
    expect((await sandbox.exec("cat /etc/passwd")).stdout).toMatch(/^user:x:1000:/m);
  });

  it("cannot read the server's environment, nor see the server at all", async () => {
    process.env["SLUICE_ESCAPE_SECRET"] = "hunter2";
    const { sandbox } = await makeSandbox();
    const look = "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline | tr '\\0' '\\n'";
    const { stdout } = await sandbox.exec(look, { env: { CONTROL: "visible" } });
    delete process.env["SLUICE_ESCAPE_SECRET"];
    expect(stdout).toContain("CONTROL=visible");
    expect(stdout).not.toContain("hunter2");
    const outer = (await sandbox.exec("tr '\\0' '\\n' < /proc/1/environ | cut -d= -f1 | grep -v PWD | sort"))
      .stdout;
    expect(outer.trim().split("\n")).toEqual(["PATH", "SLUICE_SANDBOX", "SLUICE_SANDBOX_KEY"]);
    expect((await sandbox.exec("ls /proc | grep -c '^[0-9]'")).stdout.trim()).toMatch(/^[3-9]$/);
  });

  it("cannot see another session, the server's token or its data folder", async () => {
    const { root, provider } = await makeProvider();
    const data = join(root, "..");
    const one = adopt(await provider.create({ id: "one" }));
    const two = adopt(await provider.create({ id: "two" }));
    await one.files.write("secret.txt", "hunter2");
    await writeFile(join(data, "token"), "hunter2");
    await refused(two, `cat ${data}/token`);
    await refused(two, `ls ${data}`);
    await refused(two, `ls ${one.folders!.workspace}`);
    await refused(two, `ls ${two.folders!.workspace}`);
    expect((await two.exec("grep -rs hunter2 / --exclude-dir=proc --exclude-dir=usr")).stdout).toBe("");
  });

  it("cannot see the data folder through a workspace that contains it", async () => {
    const home = await makeFolder();
    const root = join(home, "data", "sandboxes");
    await mkdir(root, { recursive: true });
    await writeFile(join(home, "data", "token"), "hunter2");
    const { provider } = await makeProvider({ root, hide: [join(home, "data")] });
    const sandbox = adopt(await provider.create({ id: "one", directory: home }));
    expect((await sandbox.exec("ls -A data; echo x > data/y")).stdout).toBe("");
    await expect(sandbox.files.read("data/token")).rejects.toMatchObject({ code: "permission_denied" });
  });

  it("cannot see its own control files", async () => {
    const { sandbox } = await makeSandbox();
    const spool = await createSpool(join(await makeFolder(), "spool-of-mine"));
    const look =
      "find / -name 'spool-of-mine' -o -name 'sandbox.json' -o -name '.sealed*' 2> /dev/null; for f in /proc/self/fd/*; do readlink $f; done; cat /proc/self/mountinfo; echo end; exec sleep 600";
    await sandbox.spawn({ launch: { argv: ["/bin/sh", "-c", look], env: {} }, wrapper: spool.wrapper });
    const out = await waitFor(async () => {
      const text = await readFile(join(spool.folder, "out"), "utf8");
      return text.includes("end\n") && text;
    });
    expect(out).not.toContain("sandbox.json");
    expect(out).not.toContain(".sealed");
    // A descriptor says its name, but the name leads nowhere inside.
    await refused(sandbox, `ls ${spool.folder}`);
    if (sandbox.owner) {
      const reopen = "cat /proc/[0-9]*/fd/1 > /dev/null && exit 0; exit 1";
      expect((await sandbox.exec(reopen)).exitCode).toBe(1);
    }
  });

  it("cannot reach a port of the host's loopback, nor its abstract sockets", async () => {
    const tcp = await listen({ host: "127.0.0.1", port: 0 });
    const { port } = tcp.address() as AddressInfo;
    const name = `sluice-escape-${process.pid}`;
    await listen({ path: `\0${name}` });
    const dial = `perl -MIO::Socket::INET -e 'exit(IO::Socket::INET->new(PeerAddr => "127.0.0.1:${port}", Timeout => 5) ? 0 : 1)'`;
    const abstract = `perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0); exit(connect(S, pack("S a108", AF_UNIX, "\\0${name}")) ? 0 : 1)'`;
    const { sandbox } = await makeSandbox();
    for (const attempt of [dial, abstract]) {
      expect(await onHost(attempt)).toBe(0);
      await refused(sandbox, attempt);
    }
    expect((await sandbox.exec("cat /proc/net/dev | tail -n +3 | cut -d: -f1")).stdout.trim()).toBe("lo");
  });

  it("gets EPERM for every system call of the list, and ENOSYS for clone3", async () => {
    const arch = process.arch as keyof typeof DENIED;
    const { sandbox } = await makeSandbox();
    const call = 'for (@ARGV) { $! = 0; syscall($_, 0, 0, 0, 0, 0, 0); print $! + 0, "\\n" }';
    const numbers = Object.values(DENIED[arch]);
    const { stdout } = await sandbox.exec(`perl -e '${call}' ${numbers.join(" ")} ${CLONE3}`);
    const names = Object.keys(DENIED[arch]);
    const answers = stdout.trim().split("\n");
    expect(Object.fromEntries(names.map((name, index) => [name, answers[index]]))).toEqual(
      Object.fromEntries(names.map((name) => [name, "1"])),
    );
    expect(answers.at(-1)).toBe("38");
    for (const flag of [0x10000000, 0x20000, 0x40000000, 0x20000000]) {
      const clone = `perl -e '$r = syscall(${CLONE[arch]}, ${flag} | 17, 0, 0, 0, 0); exit($r == 0 ? 0 : $! + 0)'`;
      expect((await sandbox.exec(clone)).exitCode).toBe(1);
    }
  });

  it("cannot mount, unshare, trace, or get rights back", async () => {
    const { sandbox } = await makeSandbox();
    for (const attempt of [
      "mount -t tmpfs none /tmp",
      "mount --bind / /tmp",
      "umount /proc",
      "unshare -U true",
      "unshare -m true",
      "nsenter -t 1 -m true",
      "chroot / true",
      "hostname other",
      KEEP_CORE_PATTERN,
      OPEN_SYSRQ,
      "mknod /tmp/disk b 8 0",
      "su -c true",
    ]) {
      await refused(sandbox, attempt);
    }
    const status = (await sandbox.exec("cat /proc/self/status")).stdout;
    for (const name of ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"]) {
      expect(status).toMatch(new RegExp(`^${name}:\\s*0+$`, "m"));
    }
    expect(status).toMatch(/^NoNewPrivs:\s*1$/m);
    expect(status).toMatch(/^Seccomp:\s*2$/m);
  });

  it("cannot raise its limits", async () => {
    const { sandbox } = await makeSandbox();
    const [, hard = "0"] =
      /^Max open files\s+\d+\s+(\d+)/m.exec((await sandbox.exec("cat /proc/self/limits")).stdout) ?? [];
    await refused(sandbox, `prlimit --nofile=${Number(hard) + 1}:${Number(hard) + 1} true`);
    await refused(sandbox, "ls /sys/fs/cgroup");
  });

  it("cannot bring the host down with a fork bomb", async () => {
    const { sandbox } = await makeSandbox({ limits: { processes: 200 } });
    const bomb = sandbox.exec("bomb() { bomb | bomb & }; bomb; sleep 600", { timeoutMs: 3_000 });
    expect(await onHost("for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1; true | true; done")).toBe(0);
    await bomb;
    await sandbox.killAll();
    if (groups.pids) expect(await sandbox.verdict!()).toBe("too many processes: limit 200");
    expect((await sandbox.exec("echo alive")).stdout).toBe("alive\n");
  });

  it("cannot take more memory than it has, and the reason is given", async () => {
    const { sandbox } = await makeSandbox({ limits: { memoryBytes: 200 * MB } });
    const spool = await createSpool(join(await makeFolder(), "spool"));
    const hog = "perl -e '$x .= \"x\" x 1_000_000 while 1'";
    await sandbox.spawn({
      launch: { argv: ["/bin/sh", "-c", `exec ${hog}`], env: {} },
      wrapper: spool.wrapper,
    });
    const exit = await waitFor(() => spool.exit());
    expect(exit).not.toEqual({ code: 0 });
    if (groups.memory === undefined) return;
    expect(exit).toEqual({ signal: "SIGKILL" });
    expect(await sandbox.verdict!()).toBe("out of memory: limit 200 MB");
    await sandbox.killAll();
    expect(await sandbox.verdict!()).toBe("out of memory: limit 200 MB");
  });

  it("cannot fill memory through /dev/shm or /run either", async () => {
    const { sandbox } = await makeSandbox({ limits: { memoryBytes: 200 * MB } });
    await refused(sandbox, "head -c 110000000 /dev/zero > /dev/shm/x");
    await refused(sandbox, "head -c 100000000 /dev/zero > /run/x");
    await refused(sandbox, "echo > /dev/x");
    expect((await sandbox.exec("echo > /dev/shm/x; echo > /dev/null; ls /dev/pts/ptmx")).exitCode).toBe(0);
  });

  it("cannot write outside through links, .. or /usr", async () => {
    const { sandbox } = await makeSandbox();
    const outside = await makeFolder();
    await writeFile(join(outside, "victim"), "whole");
    for (const attempt of [
      "echo x > /usr/x",
      "echo x > /etc/x",
      "echo x > /x",
      "echo x > /bin/x",
      "ln /usr/bin/env hard",
      "ln -s /etc/passwd soft; echo x >> soft",
      `echo x > ../../../../../..${outside}/victim`,
      `ln -s ${outside}/victim far; echo x > far`,
      "touch /usr/bin/env",
      "chmod 755 /usr/bin/env",
    ]) {
      await refused(sandbox, attempt);
    }
    expect(await readFile(join(outside, "victim"), "utf8")).toBe("whole");
    // The API does not follow the agent's links.
    await symlink(join(outside, "victim"), join(sandbox.folders!.workspace, "link"));
    await expect(sandbox.files.write("link", "x")).rejects.toMatchObject({ code: "permission_denied" });
  });

  it("cannot signal a process of the host", async () => {
    const victim = spawn("sleep", ["600"], { stdio: "ignore" });
    const { sandbox } = await makeSandbox();
    await refused(sandbox, `kill -9 ${victim.pid}`);
    expect(await lives(victim.pid!)).toBe(true);
    victim.kill("SIGKILL");
    await once(victim, "exit");
  });

  it.runIf(process.geteuid?.() === 0)("cannot do any of it in a directory of root's", async () => {
    const directory = await makeFolder();
    const { sandbox } = await makeSandbox({ directory });
    expect(sandbox.owner).toBeUndefined();
    for (const attempt of [
      "cat /etc/shadow",
      "cat /proc/1/root/etc/shadow",
      "ls /root",
      "echo x > /usr/x",
      "echo x > /etc/x",
      KEEP_CORE_PATTERN,
      OPEN_SYSRQ,
      "mount --bind / /tmp",
      "unshare -U true",
      "mknod /tmp/disk b 8 0",
      "ls /etc/ssl/private",
    ]) {
      await refused(sandbox, attempt);
    }
    expect((await sandbox.exec("echo mine > made; id -u")).stdout).toBe("1000\n");
    expect(await readFile(join(directory, "made"), "utf8")).toBe("mine\n");
  });
});
