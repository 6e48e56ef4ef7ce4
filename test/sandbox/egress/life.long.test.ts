import { spawn } from "node:child_process";
import { chmodSync, chownSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, expect, it } from "vitest";
import { toHosts } from "../../../src/sandbox/egress/allow-list.ts";
import { readProcesses } from "../../../src/sandbox/host/processes/procfs.ts";
import { EgressLab, collect, describeWithBwrap, kill, said, toBwrapArgs } from "./lab.ts";
import { lives, waitFor } from "../workbench.ts";

const lab = new EgressLab();
afterEach(() => lab.clear());
afterAll(() => lab.remove());

/** Starts both and waits for its death, as a server does. */
const STARTER = `
  const { spawn } = require("node:child_process");
  const { host, sandbox } = JSON.parse(process.argv[1]);
  const options = { detached: true, stdio: "ignore" };
  const [program, ...args] = host.argv;
  const pids = [spawn(program, args, { ...options, env: host.env, cwd: host.cwd }).pid];
  pids.push(spawn("/bin/sh", ["-c", '"$0" "$@"; exit $?', "bwrap", ...sandbox], options).pid);
  console.log(JSON.stringify(pids));
  setInterval(() => {}, 1000);
`;

describeWithBwrap("an egress proxy's life", () => {
  it("goes on when the program that started it is killed, and ends with the sandbox", async () => {
    const answered: string[] = [];
    const port = await lab.serve((request, response) => response.end(void answered.push(request.url ?? "")));
    const { egress, folder } = await lab.egress({ extraHosts: [`127.0.0.1:${port}`], graceMs: 5_000 });
    const script = `n=0; while :; do n=$((n+1)); curl -s http://127.0.0.1:${port}/$n; sleep 0.05; done`;
    const plan = { host: await egress.start(), sandbox: toBwrapArgs(egress, script) };
    const starter = spawn(process.execPath, ["-e", STARTER, JSON.stringify(plan)], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const text = await new Promise<string>((resolve) =>
      starter.stdout.once("data", (data: Buffer) => resolve(data.toString())),
    );
    const [host = 0, wrapper = 0] = JSON.parse(text) as number[];
    lab.adopt(host, wrapper);
    await waitFor(async () => answered.length > 0);
    starter.kill("SIGKILL");
    await new Promise((resolve) => starter.once("exit", resolve));
    const before = answered.length;
    await waitFor(async () => answered.length > before + 3);

    const inside = await descendants(wrapper);
    expect(inside.some((pid) => commandLine(pid).includes("guest.js"))).toBe(true);
    expect(await lives(host)).toBe(true);
    // Only the sandbox is killed; the host program leaves by itself.
    kill(wrapper);
    await waitFor(async () => !(await Promise.all([host, wrapper, ...inside].map(lives))).includes(true));
    expect((await readdir(folder)).filter((name) => !name.endsWith(".sock"))).toEqual([]);
  });

  it("serves a second start with the first program", async () => {
    const port = await lab.serve((_request, response) => response.end("here"));
    const { egress } = await lab.egress({ extraHosts: [`127.0.0.1:${port}`] });
    const first = await lab.startHost(egress);
    const sandbox = lab.startSandbox(egress, `curl -sS http://127.0.0.1:${port}/; exec sleep 600`);
    await said(sandbox, "here");
    const second = await lab.startHost(egress);
    expect(await new Promise((resolve) => second?.once("close", resolve))).toBe(0);
    expect(await lives(first?.pid as number)).toBe(true);
    const again = await collect(lab.startSandbox(egress, `curl -sS http://127.0.0.1:${port}/`));
    expect(again.stdout).toBe("here");
  });

  it("hands over to an egress host with other settings, and lets open connections end", async () => {
    let finish: (() => void) | undefined;
    const first = await lab.serve((request, response) => {
      if (request.url !== "/slow") return void response.end("first ");
      response.write("begun ");
      finish = () => response.end("ended ");
    });
    const second = await lab.serve((_request, response) => response.end("second "));
    const { egress, folder } = await lab.egress({ extraHosts: [`127.0.0.1:${first}`] });
    const old = await lab.startHost(egress);
    const { egress: wider } = await lab.egress({
      folder,
      extraHosts: [`127.0.0.1:${first}`, `127.0.0.1:${second}`],
    });
    // The wider egress guest comes later into the same namespace.
    const guest = wider.prefix.map((word) => `'${word}'`).join(" ");
    const sandbox = lab.startSandbox(
      egress,
      `curl -sSN http://127.0.0.1:${first}/slow; while [ ! -e /run/sluice/go ]; do sleep 0.05; done
       ${guest} true; curl -sS http://127.0.0.1:${first}/ http://127.0.0.1:${second}/`,
    );
    const outcome = collect(sandbox);
    await said(sandbox, "begun");
    await lab.startHost(wider);
    // Until the old one listens no more.
    const oldHost = await childOf(old?.pid as number);
    const listener = new RegExp(`: \\S+ \\S+ 00010000 .* egress\\.${oldHost}\\.tmp$`, "m");
    expect(readFileSync("/proc/net/unix", "utf8")).toMatch(listener);
    await waitFor(async () => !listener.test(readFileSync("/proc/net/unix", "utf8")));
    expect(await lives(old?.pid as number)).toBe(true);
    finish?.();
    await new Promise((resolve) => old?.once("close", resolve));
    writeFileSync(join(folder, "go"), "");
    expect(await outcome).toEqual({ code: 0, stdout: "begun ended first second ", stderr: "" });
  });

  it("is started again when it is killed, and costs the sandbox only its open request", async () => {
    const asked: string[] = [];
    const port = await lab.serve((request, response) => {
      asked.push(request.url ?? "");
      // The first one waits for an answer that never comes.
      if (asked.length > 1) response.end("here");
    });
    const { egress, folder } = await lab.egress({ extraHosts: [`127.0.0.1:${port}`] });
    const keeper = (await lab.startHost(egress))?.pid as number;
    const ask = `curl -sS http://127.0.0.1:${port}`;
    const outcome = collect(lab.startSandbox(egress, `${ask}/cut || ${ask}/again; ${ask}/later`));
    await waitFor(async () => asked.length === 1);
    const host = await childOf(keeper);
    kill(host);
    expect(await outcome).toMatchObject({ code: 0, stdout: "herehere" });
    expect(asked).toEqual(["/cut", "/again", "/later"]);
    const successor = await childOf(keeper);
    expect(successor).not.toBe(host);

    // Without its folder there is nothing left to start it for.
    rmSync(folder, { recursive: true });
    kill(successor);
    await waitFor(async () => !(await lives(keeper)));
  });

  it("goes on when the process that would start it again is killed", async () => {
    const port = await lab.serve((_request, response) => response.end("here"));
    const { egress, folder } = await lab.egress({ extraHosts: [`127.0.0.1:${port}`], graceMs: 500 });
    const keeper = (await lab.startHost(egress))?.pid as number;
    await waitFor(async () => existsSync(join(folder, "egress.sock")));
    const host = await childOf(keeper);
    kill(keeper);
    const sandbox = lab.startSandbox(egress, `curl -sS http://127.0.0.1:${port}/`);
    expect((await collect(sandbox)).stdout).toBe("here");
    await waitFor(async () => !(await lives(host)));
  });

  it("replaces a killed one", async () => {
    const port = await lab.serve((_request, response) => response.end("here"));
    const { egress } = await lab.egress({ extraHosts: [`127.0.0.1:${port}`] });
    const first = await lab.startHost(egress);
    const script = `curl -sS http://127.0.0.1:${port}/; while [ ! -e /run/sluice/go ]; do sleep 0.05; done; curl -sS http://127.0.0.1:${port}/`;
    const sandbox = lab.startSandbox(egress, script);
    const outcome = collect(sandbox);
    await said(sandbox, "here");
    // With the process that would start it again.
    kill(-(first?.pid as number));
    await waitFor(async () => !(await lives(first?.pid as number)));
    const start = await lab.startHost(egress);
    expect(start).toBeDefined();
    writeFileSync(join((await egress.start())?.cwd ?? "", "go"), "");
    expect((await outcome).stdout).toBe("herehere");
  });

  it("ends soon after a sandbox whose guest ended before it announced itself", async () => {
    const port = await lab.serve((_request, response) => response.end("here"));
    const { egress } = await lab.egress({ extraHosts: [`127.0.0.1:${port}`], graceMs: 500 });
    // The guest looks for its host once, finds none, and looks again a second later: by then all is over.
    const sandbox = lab.startSandbox(egress, `echo ready; curl -sS http://127.0.0.1:${port}/`);
    const outcome = collect(sandbox);
    await said(sandbox, "ready");
    const host = await lab.startHost(egress);
    expect((await outcome).stdout).toBe("ready\nhere");
    expect(await new Promise((resolve) => host?.once("close", resolve))).toBe(0);
  });

  it("ends when its folder is gone", async () => {
    const { egress, folder } = await lab.egress({ extraHosts: ["model.test"] });
    const host = await lab.startHost(egress);
    await waitFor(async () => existsSync(join(folder, "egress.sock")));
    rmSync(folder, { recursive: true });
    await new Promise((resolve) => host?.once("close", resolve));
    expect(existsSync(folder)).toBe(false);
  });

  it("works in a folder whose path is longer than a socket's may be", async () => {
    const port = await lab.serve((_request, response) => response.end("far"));
    const folder = join(lab.folder, "d".repeat(100), "e".repeat(100));
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const { egress } = await lab.egress({ folder, extraHosts: [`127.0.0.1:${port}`] });
    const server = `python3 -m http.server --bind 127.0.0.1 8000 --directory /usr/share/doc > /dev/null 2>&1 &`;
    await lab.startHost(egress);
    const sandbox = lab.startSandbox(egress, `${server} curl -sS http://127.0.0.1:${port}/; exec sleep 600`);
    await said(sandbox, "far");
    const url = await egress.openPort(8000);
    await waitFor(async () => (await fetch(url)).status === 200);
  });

  it("leaves the agent its signals, its output and its exit status", async () => {
    const port = await lab.serve((_request, response) => response.end("still here\n"));
    const { egress } = await lab.egress({ extraHosts: [`127.0.0.1:${port}`] });
    await lab.startHost(egress);
    const script = `trap 'curl -sS http://127.0.0.1:${port}/; exit 7' INT; echo ready; while :; do sleep 0.05; done`;
    const sandbox = lab.startSandbox(egress, script);
    const outcome = collect(sandbox);
    await said(sandbox, "ready");
    // To the whole process group, as an interrupt is sent: the agent still needs the network afterwards.
    const rows = await readProcesses();
    const inside = new Set(await descendants(sandbox.pid as number));
    const main = rows.find((row) => inside.has(row.pid) && commandLine(row.pid).includes("trap"));
    process.kill(-(main?.group ?? Number.NaN), "SIGINT");
    expect(await outcome).toEqual({ code: 7, stdout: "ready\nstill here\n", stderr: "" });
  });

  it.skipIf(process.getuid?.() !== 0)("forwards with no more rights than the user inside has", async () => {
    const port = await lab.serve((_request, response) => response.end("here"));
    const { egress, folder } = await lab.egress({ extraHosts: [`127.0.0.1:${port}`] });
    chmodSync(lab.folder, 0o711);
    chownSync(folder, 20_001, 20_001);
    const host = await lab.startHost(egress);
    const user = "setpriv --reuid 20001 --regid 20001 --clear-groups".split(" ");
    const sandbox = lab.startSandbox(egress, `curl -sS http://127.0.0.1:${port}/`, {}, user);
    expect(await collect(sandbox)).toEqual({ code: 0, stdout: "here", stderr: "" });
    const forwarder = await childOf(host?.pid as number);
    const status = readFileSync(`/proc/${forwarder}/status`, "utf8");
    expect(status).toMatch(/^Uid:\t20001\t20001\t20001\t20001$/m);
    expect(status).toMatch(/^CapEff:\t0+$/m);
    expect(status).toMatch(/^Groups:\s*$/m);
  });

  it("goes on without an egress proxy that cannot start, and says why", async () => {
    const { egress } = await lab.egress({});
    const broken = { ...egress, prefix: egress.prefix.with(4, "/nowhere/guest.js") };
    const { stdout, stderr, code } = await collect(lab.startSandbox(broken, "echo on; exit 3"));
    expect({ stdout, code }).toEqual({ stdout: "on\n", code: 3 });
    expect(stderr).toContain("Cannot find module '/nowhere/guest.js'");
  });

  it("leaves no file of a dead guest behind for the next", async () => {
    const { egress, folder } = await lab.egress({});
    await egress.start();
    for (let round = 0; round < 3; round++) await collect(lab.startSandbox(egress, "true"));
    const sandbox = lab.startSandbox(egress, "echo ready; exec sleep 600");
    await said(sandbox, "ready");
    await waitFor(
      async () => (await readdir(folder)).filter((name) => name.startsWith("ingress.")).length === 1,
    );
  });

  it("shows no secret in a command line", async () => {
    const port = await lab.serve((_request, response) => response.end("here"));
    const urls = [
      `http://user:hunter2@127.0.0.1:${port}/mcp?token=hunter2`,
      "https://hunter2@mcp.test/hunter2#hunter2",
    ];
    const { egress } = await lab.egress({ extraHosts: toHosts(urls) });
    const host = await lab.startHost(egress);
    const env = { API_KEY: "hunter2-in-env" };
    const sandbox = spawn(
      "bwrap",
      toBwrapArgs(egress, `curl -sS http://127.0.0.1:${port}/; exec sleep 600`),
      {
        env: { ...process.env, ...env },
        stdio: ["ignore", "pipe", "inherit"],
      },
    );
    await said(sandbox, "here");
    const keeper = host?.pid as number;
    const pids = [keeper, ...(await descendants(keeper)), ...(await descendants(sandbox.pid as number))];
    const lines = pids.map(commandLine);
    expect(lines.some((line) => line.includes("guest.js"))).toBe(true);
    expect(lines.some((line) => line.includes("egress-host.js"))).toBe(true);
    for (const line of lines) expect(line).not.toContain("hunter2");
  });
});

async function descendants(pid: number): Promise<number[]> {
  const rows = await readProcesses();
  const found = new Set([pid]);
  for (let before = 0; before !== found.size;) {
    before = found.size;
    for (const row of rows) if (found.has(row.parent)) found.add(row.pid);
  }
  return [...found].filter((member) => member !== pid);
}

async function childOf(pid: number): Promise<number> {
  const [child] = await descendants(pid);
  if (child === undefined) throw new Error(`the process ${pid} has no child`);
  return child;
}

function commandLine(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
  } catch {
    return "";
  }
}
