import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readlink } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { findBwrap } from "../../src/sandbox/bwrap/detect.ts";
import { findScopePrefix } from "../../src/sandbox/bwrap/prefixes.ts";
import { BwrapSandbox } from "../../src/sandbox/bwrap/sandbox.ts";
import { DENIED, toSeccompFilter, type Machine } from "../../src/sandbox/bwrap/seccomp.ts";
import { SandboxFolder } from "../../src/sandbox/host/folder.ts";
import { runFilter } from "./bpf.ts";
import { describeFortress, makeFolder, runInside, runSteps, serveAs } from "./fortress-bench.ts";

const run = promisify(execFile);
const EPERM = { errno: 1 };
const ENOSYS = { errno: 38 };
const ARCH = { x64: 0xc000003e, arm64: 0xc00000b7 } as const;
/** The numbers once more, by hand: the filter's own table is under test. */
const N = {
  x64: { socket: 41, socketpair: 53, open: 2, openat: 257, creat: 85, chmod: 90, fchmod: 91, fchmodat: 268 },
  arm64: { socket: 198, socketpair: 199, openat: 56, fchmod: 52, fchmodat: 53 },
} as const;
const MKNOD = { x64: { mknod: 133, mknodat: 259 }, arm64: { mknodat: 33 } } as const;
const MACHINES: readonly Machine[] = ["x64", "arm64"];

describe.each(MACHINES)("the filter of system calls for %s", (machine) => {
  const filter = toSeccompFilter({ arch: machine })!;
  const arch = ARCH[machine];
  const n = N[machine] as Readonly<Record<string, number>>;
  const ask = (number: number, ...args: (number | bigint)[]): { errno: number } | "allow" =>
    runFilter(filter, { arch, number, args });

  it("allows only UNIX, INET, INET6 and routing NETLINK sockets, and ignores the upper half of the argument", () => {
    for (let family = 0; family < 4_096; family++) {
      for (const high of [0n, 1n << 32n]) {
        const answer = ask(n["socket"]!, high | BigInt(family), 1, 0);
        expect(answer, `family ${family}`).toEqual([1, 2, 10, 16].includes(family) ? "allow" : { errno: 97 });
        expect(ask(n["socketpair"]!, high | BigInt(family), 1, 0)).toEqual(
          family === 1 ? "allow" : { errno: 97 },
        );
      }
    }
    for (let protocol = 1; protocol < 64; protocol++) {
      expect(ask(n["socket"]!, 16, 3, protocol)).toEqual({ errno: 93 });
    }
    // SOCK_PACKET, alone and with SOCK_CLOEXEC.
    for (const type of [10, 10 | 0o2000000]) expect(ask(n["socket"]!, 2, type, 0)).toEqual({ errno: 97 });
    for (const type of [1, 2, 1 | 0o2000000 | 0o4000]) expect(ask(n["socket"]!, 2, type, 6)).toBe("allow");
  });

  it("sets no setuid or setgid bit by any mode of any call", () => {
    const calls: [number, (mode: number) => (number | bigint)[]][] = [
      [n["chmod"] ?? -1, (mode) => [0, mode]],
      [n["creat"] ?? -1, (mode) => [0, mode]],
      [n["fchmod"]!, (mode) => [3, mode]],
      [n["fchmodat"]!, (mode) => [-100, 0, mode]],
      [452, (mode) => [-100, 0, mode, 0]],
      [(MKNOD[machine] as { mknod?: number }).mknod ?? -1, (mode) => [0, 0o100000 | mode, 0]],
      [MKNOD[machine].mknodat, (mode) => [-100, 0, 0o100000 | mode, 0]],
      [n["open"] ?? -1, (mode) => [0, 0o101, mode]],
      [n["openat"]!, (mode) => [-100, 0, 0o101, mode]],
      // O_TMPFILE with either machine's O_DIRECTORY.
      [n["openat"]!, (mode) => [-100, 0, 0o20200002, mode]],
      [n["openat"]!, (mode) => [-100, 0, 0o20040002, mode]],
    ];
    for (const [number, toArgs] of calls.filter(([number]) => number >= 0)) {
      for (let mode = 0; mode < 0o10000; mode++) {
        const wanted = (mode & 0o6000) === 0 ? "allow" : EPERM;
        expect(ask(number, ...toArgs(mode)), `${number} ${mode.toString(8)}`).toEqual(wanted);
      }
    }
  });

  it("looks at no mode where no file is made", () => {
    for (const flags of [0, 1, 2, 0o1000, 0o2000, 0o200000, 0o2000000]) {
      expect(ask(n["openat"]!, -100, 0, flags, 0o6777)).toBe("allow");
      if (n["open"] !== undefined) expect(ask(n["open"], 0, flags, 0o6777)).toBe("allow");
    }
  });

  it("answers ENOSYS to openat2, clone3, other machines' calls, and all calls after its list", () => {
    for (const number of [435, 437, 470, 512, 0x3fffffff, 0x40000000, 0x40000101, 0xffffffff]) {
      expect(ask(number), String(number)).toEqual(ENOSYS);
    }
    // i386, x86-64, arm, arm64.
    for (const other of [0x40000003, 0xc000003e, 0x40000028, 0xc00000b7].filter((one) => one !== arch)) {
      for (let number = 0; number < 600; number++) {
        expect(runFilter(filter, { arch: other, number })).toEqual(ENOSYS);
      }
    }
  });

  it("takes disk space by writing alone: fallocate may only free", () => {
    const fallocate = machine === "x64" ? 285 : 47;
    for (const mode of [0, 1, 0x10, 0x11, 0x20, 0x40]) expect(ask(fallocate, 3, mode)).toEqual({ errno: 95 });
    for (const mode of [3, 8]) expect(ask(fallocate, 3, mode)).toBe("allow");
  });

  it("decides every number, and denies its listed calls", () => {
    const denied = new Set<number>(Object.values(DENIED[machine]));
    const looks = new Set<number>([435, 437, ...(machine === "x64" ? [285] : [47])]);
    for (let number = 0; number <= 469; number++) {
      if (looks.has(number) || number === n["socket"] || number === n["socketpair"]) continue;
      expect(ask(number), String(number)).toEqual(denied.has(number) ? EPERM : "allow");
    }
  });

  it("makes no UNIX socket but pairs where it is told so", () => {
    const strict = toSeccompFilter({ arch: machine, unixSockets: false })!;
    const make = (number: number, family: number): unknown =>
      runFilter(strict, { arch, number, args: [family, 1, 0] });
    expect(make(n["socket"]!, 1)).toEqual({ errno: 97 });
    expect(make(n["socketpair"]!, 1)).toBe("allow");
    for (const family of [2, 10, 16]) expect(make(n["socket"]!, family)).toBe("allow");
  });
});

/** Says which of its attempts worked. */
const ATTACKER = join(import.meta.dirname, "programs/attacker.c");

describeFortress("system calls of an agent that means harm", (user) => {
  it("leave no setuid file, no other socket, no foreign memory", { timeout: 120_000 }, async () => {
    const server = await serveAs(user);
    const directory = await makeFolder(user);
    await run("gcc", ["-O1", "-w", "-o", join(directory, "attack"), ATTACKER]);
    await server.client.sessions.create("s", { agent: "scripted", sandbox: "bwrap", directory });
    // The same program finds something to do where nothing holds it.
    const control = await run("sh", ["-c", `mkdir control && cd control && ../attack`], { cwd: directory });
    expect(control.stdout).toContain("BITS chmod 104755");
    expect(control.stdout).toContain("MEMORY by /proc");
    const inside = await runInside(server, "s", "mkdir try && cd try && ../attack");
    expect(inside.stderr).toBe("");
    expect(inside.stdout).toBe("done\n");
    const found = await run("find", [join(directory, "try"), "-perm", "/6000"]);
    expect(found.stdout).toBe("");
  });

  it("leave compilers, package managers, archives and git at work", { timeout: 180_000 }, async () => {
    const server = await serveAs(user);
    await server.client.sessions.create("s", { agent: "scripted", sandbox: "bwrap" });
    const everyday = `set -e
mkdir -m 0755 a; mkdir -m 1777 sticky; chmod 0755 a; chmod +t a; install -m 0644 /etc/passwd a/copy
printf 'int main(void){return 0;}' > x.c; gcc -o x x.c; ./x
tar cf a.tar a x; mkdir out; tar xpf a.tar -C out; test -x out/x; cp -a out again
git init -q r; cd r; echo 1 > f; git add f; git -c user.name=u -c user.email=u@example.org commit -qm one; git gc -q; cd ..
git clone -q r s
${process.execPath} -e 'require("fs").writeFileSync("n", "1", {mode: 0o600}); const c = require("child_process"); c.execSync("true"); require("net").createServer().listen("/tmp/sock", () => process.exit(0))'
/usr/bin/python3 -c 'import tempfile, socket, subprocess, multiprocessing; tempfile.TemporaryFile().write(b"x"); socket.socketpair(); subprocess.run(["true"], check=True)'
bash -c 'cat <(echo fine)' ; dd if=/dev/zero of=big bs=1M count=2 2>/dev/null; truncate -s 1G sparse; cat /proc/self/status > /dev/null
echo done`;
    const result = await runInside(server, "s", everyday);
    expect(result.stderr).toBe("");
    expect(result.stdout).toBe("fine\ndone\n");
  });
});

/** Connects to an abstract socket of the host, by stream and by datagram, and to one of its own in a file. */
const DIAL = (name: string): string => `perl -MSocket -e '
for my $type (SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET) {
  my $to = pack("S a*", AF_UNIX, "\\0${name}" . ($type == SOCK_DGRAM ? "-dgram" : ""));
  print "reached by $type\\n" if socket(S, AF_UNIX, $type, 0) && connect(S, $to);
}
print "sent\\n" if socket(S, AF_UNIX, SOCK_DGRAM, 0) && send(S, "x", 0, pack("S a*", AF_UNIX, "\\0${name}-dgram"));
unlink "/tmp/own-$$"; my $own = pack_sockaddr_un("/tmp/own-$$");
print "own\\n" if socket(L, AF_UNIX, SOCK_STREAM, 0) && bind(L, $own) && listen(L, 1)
  && socket(C, AF_UNIX, SOCK_STREAM, 0) && connect(C, $own);
unlink "/tmp/own-$$";
print "pair\\n" if socketpair(A, B, AF_UNIX, SOCK_STREAM, 0)'`;

const LISTEN = (name: string): string => `use Socket;
socket(my $s, AF_UNIX, SOCK_STREAM, 0); bind($s, pack("S a*", AF_UNIX, "\\0${name}")) or die; listen($s, 9);
socket(my $d, AF_UNIX, SOCK_DGRAM, 0); bind($d, pack("S a*", AF_UNIX, "\\0${name}-dgram")) or die;
$| = 1; print "on\\n"; sleep 600`;

describeFortress("the full network", (user) => {
  it("does not share the host's abstract sockets", { timeout: 60_000 }, async () => {
    const name = `sluice-fortress-${process.pid}-${user.ids?.uid ?? 0}`;
    const host = spawn("perl", ["-e", LISTEN(name)], { stdio: ["ignore", "pipe", "inherit"] });
    await once(host.stdout!, "data");
    try {
      const control = await run("sh", ["-c", DIAL(name)]);
      expect(control.stdout).toBe("reached by 1\nreached by 2\nsent\nown\npair\n");
      const server = await serveAs(user);
      await server.client.sessions.create("s", { agent: "scripted", sandbox: "bwrap", network: "full" });
      const inside = await runInside(server, "s", DIAL(name));
      expect(inside.stderr).toBe("");
      const scoped = (await findScopePrefix("/usr/bin/bwrap")) !== undefined;
      // Without Landlock's scopes there are no UNIX sockets but pairs.
      expect(inside.stdout).toBe(scoped ? "own\npair\n" : "pair\n");
      const ready = (await runSteps(server, "s")).find(({ type }) => type === "sandbox.ready");
      expect(JSON.stringify(ready?.data).includes("no program can make UNIX sockets")).toBe(!scoped);
      // The network is still the host's own.
      expect((await runInside(server, "s", "readlink /proc/self/ns/net")).stdout).toBe(
        `${await readlink("/proc/self/ns/net")}\n`,
      );
    } finally {
      host.kill("SIGKILL");
      await once(host, "exit");
    }
  });
});

it("the full network has no UNIX sockets but pairs where nothing keeps the host's apart, and says so", async () => {
  const bwrap = await findBwrap();
  if (bwrap === undefined) return;
  const root = await makeFolder({ name: "root", ids: undefined });
  const folder = await SandboxFolder.at(root, "s");
  const record = { version: 1, id: "s", provider: "bwrap", network: { mode: "full" } } as const;
  await folder.make(record);
  const context = { bwrap, hide: [root], programs: undefined, scope: undefined };
  const sandbox = new BwrapSandbox(folder, record, context);
  try {
    expect((await sandbox.exec(DIAL("nobody"))).stdout).toBe("pair\n");
    expect(sandbox.shortcomings.join()).toContain("no program can make UNIX sockets");
  } finally {
    await sandbox.destroy();
  }
});
