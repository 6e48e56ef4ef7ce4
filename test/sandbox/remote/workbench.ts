import { spawn, type ChildProcess } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach } from "vitest";
import { findRunnerProgram } from "../../../src/sandbox/remote/programs.ts";
import { RemoteProvider, RemoteRecords } from "../../../src/sandbox/remote/provider.ts";

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

const lasting: (() => Promise<void>)[] = [];
afterAll(async () => {
  for (const cleanup of lasting.splice(0).toReversed()) await cleanup();
});

/** Makes something for all tests of a file: what it would clean up after this test is kept for the end. */
export async function forWholeFile<T>(make: () => Promise<T>): Promise<T> {
  const before = cleanups.length;
  const made = await make();
  lasting.push(...cleanups.splice(before));
  return made;
}

export function onCleanup(cleanup: () => Promise<void>): void {
  cleanups.push(cleanup);
}

export async function makeFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-far-"));
  onCleanup(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** A real runner on this machine, behind a unix socket, that can be killed and comes back. */
export interface Runner {
  readonly root: string;
  readonly provider: RemoteProvider;
  /** Opens a provider as another server would. */
  reopen(): RemoteProvider;
  kill(): Promise<void>;
  /** Cuts every connection. */
  cut(): void;
  /** Whether new connections are refused. */
  down(isDown: boolean): void;
}

export async function makeRunner(): Promise<Runner> {
  const root = await makeFolder();
  let runner: ChildProcess | undefined;
  let socket = "";
  let isDown = false;
  const streams = new Set<Duplex>();
  const start = async (): Promise<void> => {
    runner = spawn(process.execPath, [findRunnerProgram(), "serve", root], {
      stdio: ["ignore", "ignore", "inherit"],
    });
    const { readdir } = await import("node:fs/promises");
    for (let tries = 0; tries < 400; tries += 1) {
      const names: string[] = await readdir(join(root, "run")).catch(() => []);
      const name = names.find((file) => file.endsWith(".sock"));
      if (name !== undefined && (await canConnect(join(root, "run", name)))) {
        socket = join(root, "run", name);
        return;
      }
      await sleep(10);
    }
    throw new Error("the runner did not start");
  };
  const kill = async (): Promise<void> => {
    const child = runner;
    runner = undefined;
    if (!child || child.exitCode !== null) return;
    const exited = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await exited;
  };
  let starting: Promise<void> | undefined;
  const dial = async (): Promise<Duplex> => {
    if (isDown) throw new Error("the network is down");
    if (!runner) await (starting ??= start().finally(() => (starting = undefined)));
    return new Promise((resolve, reject) => {
      const stream = connect(socket);
      stream.once("connect", () => resolve(stream)).once("error", reject);
      streams.add(stream);
      stream.on("close", () => streams.delete(stream)).on("error", () => {});
    });
  };
  onCleanup(kill);
  const reopen = (): RemoteProvider => {
    const provider = new RemoteProvider({
      id: "far",
      dial,
      records: new RemoteRecords(join(root, "records")),
    });
    onCleanup(async () => {
      provider.close();
      // What a test left running ends with it.
      for (const { id } of await provider.list()) await (await provider.connect(id))?.destroy();
      provider.close();
    });
    return provider;
  };
  await start();
  return {
    root,
    provider: reopen(),
    reopen,
    kill,
    cut: () => {
      for (const stream of streams) stream.destroy();
    },
    down: (value) => {
      isDown = value;
    },
  };
}

function canConnect(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path, () => (socket.destroy(), resolve(true)));
    socket.on("error", () => resolve(false));
  });
}
