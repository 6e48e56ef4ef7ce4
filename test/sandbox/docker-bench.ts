import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import Docker from "dockerode";
import { afterAll, afterEach, beforeAll, describe, expect } from "vitest";
import { start, whyNot, type DockerEngine } from "../../scripts/docker-engine.mjs";
import {
  createDockerProvider,
  type DockerProvider,
  type DockerProviderOptions,
} from "../../src/sandbox/docker/provider.ts";
import type { HostSandbox, SandboxSpec } from "../../src/sandbox/port.ts";
import type { ProviderUnderTest } from "../../src/sandbox/testkit.ts";
import { createSpool, type Spool } from "../../src/spool/index.ts";
import { egressPrograms } from "./program.ts";
import { bundleInto } from "../support/bundle.ts";

const PROJECT = resolve(import.meta.dirname, "../..");

/** Where an engine is outlived, its containers go on while it is away. */
export interface EngineOptions {
  readonly outlived?: boolean;
}

/** A real container engine. Its sandboxes are removed after each test. */
export interface DockerBench {
  readonly engine: DockerEngine;
  readonly docker: Docker;
  makeFolder(): Promise<string>;
  makeOptions(options?: Partial<DockerProviderOptions>): Promise<DockerProviderOptions>;
  makeSandbox(
    spec?: Partial<SandboxSpec>,
  ): Promise<{ sandbox: HostSandbox; provider: DockerProvider; options: DockerProviderOptions }>;
  makeSubject(): Promise<ProviderUnderTest>;
  /** Starts a program of this folder that uses the provider. Resolves when it has printed this line. */
  startProgram(name: "launch" | "engine", args: readonly string[], line: string): Promise<ChildProcess>;
  /** Runs a shell script in the sandbox, behind a spool. */
  spawnScript(
    sandbox: HostSandbox,
    text: string,
    env?: Record<string, string>,
    hosts?: readonly string[],
  ): Promise<Spool>;
  /** The containers of sandboxes, running or not. */
  containers(): Promise<Docker.ContainerInfo[]>;
  clear(): Promise<void>;
  stop(): Promise<void>;
}

export async function openBench(options: EngineOptions = {}): Promise<DockerBench> {
  const [engine, bundles] = await Promise.all([start(options), bundleAll()]);
  const programs = {
    ...(await egressPrograms()),
    exec: join(bundles, "docker-exec.mjs"),
    launch: join(bundles, "docker-launch.mjs"),
  };
  const docker = new Docker({ socketPath: engine.socketPath });
  const folders: string[] = [];
  const sandboxes: HostSandbox[] = [];
  const makeFolder = async (): Promise<string> => {
    const folder = await mkdtemp(join(tmpdir(), "sluice-sandbox-"));
    folders.push(folder);
    return folder;
  };
  const makeOptions: DockerBench["makeOptions"] = async (options = {}) => ({
    root: join(await makeFolder(), "sandboxes"),
    socketPath: engine.socketPath,
    image: engine.image,
    programs,
    ...options,
  });
  const startProgram: DockerBench["startProgram"] = async (name, args, line) => {
    const argv = [join(bundles, `${name}.mjs`), ...args];
    const child = spawn(process.execPath, argv, { stdio: ["ignore", "pipe", "inherit"] });
    for await (const said of createInterface({ input: child.stdout })) if (said === line) return child;
    throw new Error(`the program ended before it said "${line}"`);
  };
  return {
    engine,
    docker,
    makeFolder,
    makeOptions,
    startProgram,
    async makeSandbox(spec = {}) {
      const options = await makeOptions();
      const provider = createDockerProvider(options);
      const sandbox = await provider.create({ id: "sbx_test", ...spec });
      sandboxes.push(sandbox);
      return { options, provider, sandbox };
    },
    async makeSubject() {
      const options = await makeOptions();
      return {
        provider: createDockerProvider(options),
        reopen: async () => createDockerProvider(options),
        program: async (task) => {
          const module = join(bundles, "docker.mjs");
          const args = [module, "createDockerProvider", JSON.stringify(options), JSON.stringify(task)];
          const child = await startProgram("launch", args, "spawned");
          return { kill: () => endProgram(child) };
        },
        dispose: async () => {},
      };
    },
    async spawnScript(sandbox, text, env = {}, hosts = []) {
      const spool = await createSpool(join(await makeFolder(), "spool"));
      await sandbox.spawn({ launch: { argv: ["sh", "-c", text], env, hosts }, wrapper: spool.wrapper });
      return spool;
    },
    containers: () => docker.listContainers({ all: true, filters: { label: ["sluice.root"] } }),
    async clear() {
      for (const sandbox of sandboxes.splice(0)) await sandbox.destroy();
      for (const folder of folders.splice(0)) await rm(folder, { recursive: true, force: true });
    },
    async stop() {
      await engine.stop();
      await rm(bundles, { recursive: true, force: true });
    },
  };
}

const reason = whyNot();
if (reason !== undefined && process.env["CI"] === "true") throw new Error(`no container engine: ${reason}`);
if (reason !== undefined) console.warn(`The docker sandbox is not tested: ${reason}.`);

export const describeDocker = describe.skipIf(reason !== undefined);

/** One bench for all tests of a file; no container is left at its end. */
export function useDockerBench(options: EngineOptions = {}): () => DockerBench {
  let bench: DockerBench | undefined;
  beforeAll(async () => {
    if (reason === undefined) bench = await openBench(options);
  }, 180_000);
  afterEach(() => bench?.clear());
  afterAll(async () => {
    const left = await bench?.containers();
    await bench?.stop();
    expect(left ?? []).toEqual([]);
  });
  return () => bench as DockerBench;
}

/** The output lines and the exit of a process. */
export async function readToEnd(spool: Spool): Promise<{ lines: string[]; exit: unknown }> {
  const lines: string[] = [];
  let exit: unknown;
  for await (const batch of spool.follow({ from: 0, signal: AbortSignal.timeout(20_000) })) {
    lines.push(...batch.lines.map((line) => line.text));
    exit = batch.exit;
  }
  return { lines, exit };
}

export async function endProgram(child: ChildProcess): Promise<void> {
  const exited = once(child, "exit");
  child.kill("SIGKILL");
  await exited;
}

/** The contents of this file of /proc for all other processes, where they contain the text. */
export async function findInProc(file: "cmdline" | "environ", text: string): Promise<string[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid);
  const texts = await Promise.all(
    pids.map((pid) => readFile(`/proc/${pid}/${file}`, "utf8").catch(() => "")),
  );
  return texts.filter((found) => found.includes(text));
}

/** A bundle below node_modules finds its packages, and above them our own package.json. */
async function bundleAll(): Promise<string> {
  const cache = join(PROJECT, "node_modules/.cache");
  await mkdir(cache, { recursive: true });
  const folder = await mkdtemp(join(cache, "sluice-docker-"));
  const inputs = {
    docker: "src/sandbox/docker/provider.ts",
    "docker-exec": "src/sandbox/docker/exec/main.ts",
    "docker-launch": "src/sandbox/docker/exec/launch.ts",
    engine: "test/sandbox/programs/docker-engine.ts",
    launch: "test/sandbox/fixtures/launch.mjs",
  };
  for (const [name, input] of Object.entries(inputs)) {
    await bundleInto(join(folder, `${name}.mjs`), join(PROJECT, input), { external: /^[^./]/ });
  }
  return folder;
}
