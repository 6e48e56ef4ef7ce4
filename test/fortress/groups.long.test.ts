import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import type { SandboxRecord } from "../../src/sandbox/host/folder.ts";
import { Cgroup, handDown } from "../../src/sandbox/host/processes/cgroup.ts";
import { createLocalProvider, type HostSandbox } from "../../src/sandbox/index.ts";
import { makeProvider, makeSandbox as makeBwrap } from "../sandbox/bwrap-bench.ts";
import { lives, makeFolder, makeSandbox, waitFor } from "../sandbox/workbench.ts";
import { describeFortress, runInside, serveAs } from "./fortress-bench.ts";
import { bundleInto } from "../support/bundle.ts";

const own = await Cgroup.locate("sluice-fortress-probe");
const groups: string[] = [];

/** Below the group that sandboxes are in; gone when the test is over. */
function makeGroup(name: string, parent = join(own!.path, "..")): string {
  const path = join(parent, name);
  mkdirSync(path, { recursive: true });
  groups.push(path);
  return path;
}

/** A writable group that no process can join: its sibling is threaded. */
function makeUnjoinable(): string {
  const parent = makeGroup(`sluice-test-${process.pid}`);
  writeFileSync(join(makeGroup("threads", parent), "cgroup.type"), "threaded");
  return makeGroup("invalid", parent);
}

afterEach(() => {
  for (const path of groups.splice(0).toReversed()) if (existsSync(path)) rmdirSync(path);
});

async function withGroup(file: string, cgroup: string | undefined): Promise<void> {
  const { cgroup: _old, ...record } = JSON.parse(await readFile(file, "utf8")) as SandboxRecord;
  await writeFile(file, JSON.stringify(cgroup === undefined ? record : { ...record, cgroup }));
}

const reason = own === undefined ? " (skipped: no version 2 control group is ours to divide)" : "";

describe.skipIf(own === undefined)(`control groups${reason}`, () => {
  it("a group that cannot be joined is an error, and the command does not start", async () => {
    const local = await makeSandbox();
    await withGroup(join(local.root, "sbx_test", "sandbox.json"), makeUnjoinable());
    const closed = (await createLocalProvider({ root: local.root }).connect("sbx_test"))!;
    const bwrap = await makeBwrap();
    await withGroup(join(bwrap.root, "sbx_test", "sandbox.json"), groups.at(-1));
    const { provider } = await makeProvider({ root: bwrap.root });
    const alsoClosed = (await provider.connect("sbx_test"))!;
    for (const sandbox of [closed, alsoClosed]) {
      const message = /cannot be put into the sandbox's control groups \(cannot join the control group/;
      await expect(sandbox.exec("echo > started")).rejects.toThrow(message);
      const launch = { argv: ["/bin/sh", "-c", "echo > started"], env: {} };
      await expect(sandbox.spawn({ launch, wrapper: [] })).rejects.toThrow(message);
      expect(existsSync(join(sandbox.folders!.workspace, "started"))).toBe(false);
    }
  });

  it("a group that cannot be made is an error, too", async () => {
    const { root } = await makeSandbox();
    const parent = makeGroup(`sluice-test-${process.pid}-full`);
    writeFileSync(join(parent, "cgroup.max.descendants"), "0");
    await withGroup(join(root, "sbx_test", "sandbox.json"), join(parent, "one"));
    const closed = (await createLocalProvider({ root }).connect("sbx_test"))!;
    await expect(closed.exec("echo > started")).rejects.toThrow(
      /control groups of the sandbox cannot be made/,
    );
    expect(existsSync(join(closed.folders!.workspace, "started"))).toBe(false);
    await withGroup(join(root, "sbx_test", "sandbox.json"), undefined);
  });

  it("groups whose parent is gone are made anew where the server is now", async () => {
    const { root } = await makeSandbox();
    const file = join(root, "sbx_test", "sandbox.json");
    await withGroup(file, join(own!.path, "../gone.scope/sluice-x"));
    const sandbox = (await createLocalProvider({ root }).connect("sbx_test"))!;
    expect((await sandbox.exec("grep ^0:: /proc/self/cgroup")).stdout).toContain("sluice-");
    expect(((await readRecord(file)).cgroup ?? "").includes("gone.scope")).toBe(false);
    await sandbox.destroy();
  });

  it(
    "a delegated group that we sit in hands controllers down after we have moved out of the way",
    { timeout: 30_000 },
    async () => {
      const parent = join(own!.path, "..");
      const [controller] = readWords(join(parent, "cgroup.controllers"));
      if (controller === undefined) throw new Error("no controller of version 2 is here to try with");
      const handed = readWords(join(parent, "cgroup.subtree_control")).includes(controller);
      if (!handed) writeFileSync(join(parent, "cgroup.subtree_control"), `+${controller}`);
      const service = makeGroup(`sluice-test-${process.pid}.service`);
      groups.push(join(service, "sluice-server"), join(service, "sluice-sandbox"));
      try {
        const module = await bundle("src/sandbox/host/processes/cgroup.ts");
        const program = `
          import { writeFileSync, mkdirSync } from "node:fs";
          import { handDown, toDelegated } from ${JSON.stringify(module)};
          const service = ${JSON.stringify(service)};
          writeFileSync(service + "/cgroup.procs", String(process.pid));
          let busy = "";
          try { writeFileSync(service + "/cgroup.subtree_control", "+${controller}"); }
          catch (error) { busy = error.code; }
          await handDown(service, ["${controller}"]);
          mkdirSync(service + "/sluice-sandbox");
          console.log(JSON.stringify({ busy, again: toDelegated(service + "/sluice-server") }));
          setInterval(() => {}, 1000);`;
        const child = spawn(process.execPath, ["--input-type=module", "-e", program], {
          stdio: ["ignore", "pipe", "inherit"],
        });
        const exited = once(child, "exit");
        const [line] = (await Promise.race([
          once(child.stdout!, "data"),
          exited.then(() => Promise.reject(new Error("ended early"))),
        ])) as [Buffer];
        expect(JSON.parse(line.toString())).toEqual({ busy: "EBUSY", again: service });
        expect(readWords(join(service, "cgroup.procs"))).toEqual([]);
        expect(readWords(join(service, "sluice-server", "cgroup.procs"))).toContain(String(child.pid));
        expect(readWords(join(service, "cgroup.subtree_control"))).toContain(controller);
        expect(readWords(join(service, "sluice-sandbox", "cgroup.controllers"))).toContain(controller);
        child.kill("SIGKILL");
        await exited;
      } finally {
        for (const path of groups.splice(0).toReversed()) {
          await waitFor(async () => !existsSync(path) || tryRemove(path));
        }
        if (!handed) writeFileSync(join(parent, "cgroup.subtree_control"), `-${controller}`);
      }
    },
  );

  it("a group with others in it is left as it is", async () => {
    const service = makeGroup(`sluice-test-${process.pid}-shared`);
    const other = spawn("sleep", ["600"], { stdio: "ignore", detached: true });
    writeFileSync(join(service, "cgroup.procs"), String(other.pid));
    await handDown(service, readWords(join(service, "cgroup.controllers")));
    expect(readWords(join(service, "cgroup.procs"))).toEqual([String(other.pid)]);
    other.kill("SIGKILL");
    await once(other, "exit");
  });
});

/** Children that drop everything which could be dropped without privileges, each named by an odd duration. */
const HIDDEN = (mark: number): string => `
setsid -f env -i sleep ${mark}1
(setsid env -i sh -c '(exec 0<&- 1>&- 2>&- 3>&-; cd /; exec setsid sleep ${mark}2) & exit' &)
env -i perl -e 'for (1..3) { exit if fork; require POSIX; POSIX::setsid() } chdir "/"; POSIX::close($_) for 0..255; exec { "/bin/sleep" } "kworker", "${mark}3"'
perl -e '$0 = "x" x 4096; exit if fork; require POSIX; POSIX::setsid(); exit if fork; %ENV = (); exec "sleep", "${mark}4"'
until [ "$(pgrep -fc ' ?${mark}[1-4]$')" = 4 ]; do sleep 0.05; done; echo hidden`;

describe("local without a control group", () => {
  const connect = async (): Promise<{ sandbox: HostSandbox; root: string }> => {
    const { root } = await makeSandbox();
    await withGroup(join(root, "sbx_test", "sandbox.json"), undefined);
    return { root, sandbox: (await createLocalProvider({ root }).connect("sbx_test"))! };
  };

  it("ends a process that has left its session, cleared its environment and closed everything", async () => {
    const { root, sandbox } = await connect();
    const mark = 700_000 + (process.pid % 100_000);
    expect((await sandbox.exec(HIDDEN(mark))).stdout).toBe("hidden\n");
    const pids = await pidsOf(mark);
    expect(pids).toHaveLength(4);
    // A restarted server, without memory of its processes.
    await (await createLocalProvider({ root }).connect("sbx_test"))!.killAll();
    for (const pid of pids) expect(await lives(pid)).toBe(false);
  });

  it("says that it cannot promise the end of a process that hides on purpose", async () => {
    const { sandbox } = await connect();
    expect(sandbox.shortcomings?.join()).toMatch(/hides on purpose may outlive the sandbox/);
  });

  it("leaves the processes of another sandbox and of the host alone", async () => {
    const first = await connect();
    const second = await connect();
    await second.sandbox.exec("setsid -f env -i sleep 812345; true");
    await first.sandbox.exec("setsid -f env -i sleep 812346; true");
    await first.sandbox.killAll();
    expect(await pidsOf(81234)).toHaveLength(1);
    await second.sandbox.killAll();
    expect(await pidsOf(81234)).toHaveLength(0);
  });
});

describeFortress("a deleted session of local", (user) => {
  it("takes along the processes that tried to leave", { timeout: 60_000 }, async () => {
    const server = await serveAs(user);
    const mark = 900_000 + (process.pid % 100_000);
    await server.client.sessions.create("s", { agent: "scripted", sandbox: "local" });
    expect((await runInside(server, "s", HIDDEN(mark))).stdout).toBe("hidden\n");
    const pids = await pidsOf(mark);
    expect(pids).toHaveLength(4);
    await server.client.sessions.delete("s");
    await waitFor(async () => (await Promise.all(pids.map(lives))).every((alive) => !alive));
  });
});

async function pidsOf(mark: number): Promise<number[]> {
  const names = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const found = await Promise.all(
    names.map(async (name) => {
      const line = await readFile(`/proc/${name}/cmdline`, "latin1").catch(() => "");
      const last = line.split("\0").at(-2) ?? "";
      const program = line.split("\0")[0] ?? "";
      return last.startsWith(String(mark)) && /sleep|kworker/.test(program) ? [Number(name)] : [];
    }),
  );
  return found.flat();
}

/** A source of ours as a plain module. */
async function bundle(source: string): Promise<string> {
  return bundleInto(join(await makeFolder(), "module.mjs"), resolve(import.meta.dirname, "../..", source));
}

async function readRecord(file: string): Promise<SandboxRecord> {
  return JSON.parse(await readFile(file, "utf8")) as SandboxRecord;
}

function readWords(file: string): string[] {
  return readFileSync(file, "utf8").split(/\s+/).filter(Boolean);
}

function tryRemove(path: string): boolean {
  try {
    rmdirSync(path);
    return true;
  } catch {
    return !existsSync(path);
  }
}
