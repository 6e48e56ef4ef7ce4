import { execFileSync, spawn, spawnSync, type ChildProcess } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer as createHttpServer, type RequestListener } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo, Server, Socket } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { describe } from "vitest";
import {
  createEgress,
  type Egress,
  type EgressOptions,
  type EgressPrograms,
} from "../../../src/sandbox/egress/egress.ts";
import { lives, waitFor } from "../workbench.ts";
import { bundleInto } from "../../support/bundle.ts";

const SOURCE = resolve(import.meta.dirname, "../../../src/sandbox/egress");
const missing = spawnSync("bwrap", ["--unshare-all", "--ro-bind", "/", "/", "true"]).status !== 0;
if (missing && process.env["CI"] === "true") {
  throw new Error(
    "bwrap does not run here, and under CI=true its tests must; install it: apt-get install bubblewrap",
  );
}

/** Where bwrap does not run, the skip is stated with its reason. */
export function describeWithBwrap(name: string, tests: () => void): void {
  describe.skipIf(missing)(missing ? `${name} (skipped: bwrap does not run here)` : name, tests);
}

/** Real sandboxes behind real egress proxies, for one test file. */
export class EgressLab {
  readonly folder: string = mkdtempSync(join(tmpdir(), "sluice-egress-"));
  readonly #children: ChildProcess[] = [];
  readonly #adopted: number[] = [];
  readonly #hosts: number[] = [];
  readonly #servers: Server[] = [];
  readonly #egresses: Egress[] = [];
  #programs: Promise<EgressPrograms> | undefined;

  /** Both ends, bundled from their source as the build does it. */
  programs(): Promise<EgressPrograms> {
    this.#programs ??= bundle(this.folder);
    return this.#programs;
  }

  async egress(options: Partial<EgressOptions>): Promise<{ egress: Egress; folder: string }> {
    const folder = mkdtempSync(join(this.folder, "sandbox-"));
    const programs = await this.programs();
    const egress = createEgress({ folder, programs, policy: { mode: "allow", hosts: [] }, ...options });
    this.#egresses.push(egress);
    return { egress, folder };
  }

  /** The host program, started as a provider does it. */
  async startHost(egress: Egress, before: readonly string[] = []): Promise<ChildProcess | undefined> {
    const start = await egress.start();
    if (start === undefined) return undefined;
    const [program = "", ...args] = [...before, ...start.argv];
    const { env, cwd } = start;
    const child = spawn(program, args, { env, cwd, detached: true, stdio: "ignore" });
    this.#hosts.push(child.pid as number);
    return this.#keep(child);
  }

  /** A sandbox with a script as its main process. */
  startSandbox(
    egress: Egress,
    script: string,
    env: Record<string, string> = {},
    before: readonly string[] = [],
  ): ChildProcess {
    const [program = "", ...args] = [...before, "bwrap", ...toBwrapArgs(egress, script, env)];
    const outside = { PATH: process.env["PATH"] };
    return this.#keep(spawn(program, args, { env: outside, stdio: ["ignore", "pipe", "pipe"] }));
  }

  /** Runs a script in a sandbox of its own, with the whole egress proxy around it. */
  async run(egress: Egress, script: string, env: Record<string, string> = {}): Promise<Outcome> {
    await this.startHost(egress);
    return collect(this.startSandbox(egress, script, env));
  }

  /** Processes that others started for a test end with it too. */
  adopt(...pids: readonly number[]): void {
    this.#adopted.push(...pids);
  }

  async serve(listener: RequestListener, tls?: Certificate): Promise<number> {
    const server = tls === undefined ? createHttpServer(listener) : createTlsServer(tls, listener);
    return this.listen(server);
  }

  async listen(server: Server, host = "127.0.0.1"): Promise<number> {
    this.#servers.push(server);
    server.on("connection", (socket: Socket) => socket.on("error", () => socket.destroy()));
    await new Promise<void>((resolve) => server.listen(0, host, resolve));
    return (server.address() as AddressInfo).port;
  }

  /** Further behaviour of the newest server. */
  last(event: string, listener: (...args: never[]) => void): void {
    this.#servers.at(-1)?.on(event, listener as () => void);
  }

  async stopServing(port: number): Promise<void> {
    const at = this.#servers.findIndex((server) => (server.address() as AddressInfo).port === port);
    const [server] = this.#servers.splice(at, 1);
    (server as Partial<ReturnType<typeof createHttpServer>>).closeAllConnections?.();
    await new Promise((resolve) => server?.close(resolve));
  }

  /** Self-signed, for one name. */
  certificate(name: string): Certificate & { file: string } {
    const file = join(this.folder, `${name}.pem`);
    const keyFile = join(this.folder, `${name}.key`);
    const names = ["-subj", `/CN=${name}`, "-addext", `subjectAltName=DNS:${name}`];
    const args = [
      "req",
      "-x509",
      "-newkey",
      "ec",
      "-pkeyopt",
      "ec_paramgen_curve:P-256",
      "-nodes",
      "-days",
      "2",
    ];
    execFileSync("openssl", [...args, ...names, "-keyout", keyFile, "-out", file], { stdio: "ignore" });
    return { file, cert: readFileSync(file), key: readFileSync(keyFile) };
  }

  /** After each test: no live child, no open handle. */
  async clear(): Promise<void> {
    for (const egress of this.#egresses.splice(0)) await egress.close();
    // The group of each, for it is started again by one that is still there.
    for (const host of this.#hosts.splice(0)) kill(-host);
    for (const { pid } of this.#children.splice(0)) if (pid !== undefined) await end(pid);
    for (const pid of this.#adopted.splice(0)) await end(pid);
    for (const server of this.#servers.splice(0)) {
      (server as Partial<ReturnType<typeof createHttpServer>>).closeAllConnections?.();
      await new Promise((resolve) => server.close(resolve));
    }
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }

  #keep(child: ChildProcess): ChildProcess {
    this.#children.push(child);
    return child;
  }
}

export interface Outcome {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

interface Certificate {
  readonly cert: Buffer;
  readonly key: Buffer;
}

export function toBwrapArgs(egress: Egress, script: string, env: Record<string, string> = {}): string[] {
  const mounts = egress.needs.flatMap(({ host, inside, writable }) => [
    writable ? "--bind" : "--ro-bind",
    host,
    inside,
  ]);
  const variables = Object.entries({ ...egress.env, ...env }).flatMap(([name, value]) => [
    "--setenv",
    name,
    value,
  ]);
  const isolation = "--unshare-all --die-with-parent --new-session --cap-drop ALL";
  const system = "--ro-bind / / --dev /dev --proc /proc --tmpfs /run";
  const command = [...egress.prefix, "/bin/sh", "-c", script];
  return [...isolation.split(" "), ...system.split(" "), ...mounts, ...variables, "--", ...command];
}

export async function collect(child: ChildProcess): Promise<Outcome> {
  let stdout = "";
  let stderr = "";
  child.stdout?.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  child.stderr?.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  return { code, stdout, stderr };
}

/** Waits for a text on the output, which goes on. */
export async function said(child: ChildProcess, text: string): Promise<void> {
  let output = "";
  child.stdout?.setEncoding("utf8").on("data", (chunk: string) => (output += chunk));
  await waitFor(async () => {
    if (output.includes(text)) return true;
    if (child.exitCode !== null) throw new Error(`it ended before it said ${text}: ${output}`);
    return false;
  });
}

export function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It is gone already.
  }
}

async function end(pid: number): Promise<void> {
  if (await lives(pid)) kill(pid);
  await waitFor(async () => !(await lives(pid)));
}

async function bundle(folder: string): Promise<EgressPrograms> {
  const programs = {
    host: join(folder, "egress-host.js"),
    guest: join(folder, "egress-guest.js"),
    preload: join(folder, "egress-preload.cjs"),
  };
  for (const name of ["host", "guest", "preload"] as const) {
    const source = join(SOURCE, name === "host" ? "host/main.ts" : `${name}.ts`);
    await bundleInto(programs[name], source, { format: name === "preload" ? "cjs" : "esm" });
  }
  return programs;
}
