import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { SluiceEvent } from "../../src/contract/index.ts";
import { createApp, listen, type Listening } from "../../src/http/index.ts";
import { createSqliteLog, type EventLog } from "../../src/log/index.ts";
import { createBwrapProvider } from "../../src/sandbox/index.ts";
import { Sluice } from "../../src/sdk/index.ts";
import type { LifecycleEvent, OutputEvent } from "../../src/dialects/sdk/events.ts";
import { createEngine, type Engine } from "../../src/sessions/index.ts";
import { readAll } from "../support/engine.ts";

export interface Place {
  readonly backend: "embedded" | "remote";
  readonly sandbox: "local" | "bwrap";
}

const { available } = await createBwrapProvider({ root: tmpdir() }).detect();
const SANDBOXES = available ? (["local", "bwrap"] as const) : (["local"] as const);

/** Every combination of backend and sandbox for the page's programs. */
export const PLACES: readonly Place[] = SANDBOXES.flatMap((sandbox) => [
  { backend: "embedded", sandbox },
  { backend: "remote", sandbox },
]);

/** Each backend once, and each sandbox. */
export const CORNERS: readonly Place[] = [
  { backend: "embedded", sandbox: "local" },
  { backend: "remote", sandbox: available ? "bwrap" : "local" },
];

/** For `describe.each`. */
export function named(places: readonly Place[]): [string, Place][] {
  return places.map((place) => [`${place.backend} ${place.sandbox}`, place]);
}

/** Instances of the SDK on a real engine in a folder of its own, in this process or behind a real server. */
export interface SdkBench {
  readonly folder: string;
  readonly place: Place;
  /** A program's instance; killed when the bench closes. */
  make(): Sluice;
  /** A folder for a test's own files. */
  temporary(): Promise<string>;
  /** The whole log of a session, read past the SDK. */
  log(session: string): Promise<SluiceEvent[]>;
  close(): Promise<void>;
}

export async function openBench(place: Place): Promise<SdkBench> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-sdk-"));
  const data = join(folder, "data");
  const server = place.backend === "remote" ? await serve(data) : undefined;
  const made: Sluice[] = [];
  let names = 0;
  return {
    folder,
    place,
    make() {
      const sluice = new Sluice().withSandbox(place.sandbox);
      if (server) sluice.withServer(server.listening.url, TOKEN);
      else sluice.withData(data);
      made.push(sluice);
      return sluice;
    },
    async temporary() {
      names += 1;
      const path = join(folder, `t${names}`);
      await mkdir(path);
      return path;
    },
    async log(session) {
      if (server) return readAll(server.log, session);
      const log = createSqliteLog({ folder: data });
      return readAll(log, session).finally(() => log.close());
    },
    async close() {
      for (const sluice of made) await sluice.kill();
      if (server) await server.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

const TOKEN = "the-token-of-the-bench";

async function serve(
  dataDir: string,
): Promise<{ engine: Engine; log: EventLog; listening: Listening; close(): Promise<void> }> {
  await mkdir(dataDir, { recursive: true });
  const log = createSqliteLog({ folder: dataDir });
  const engine = await createEngine({ log, dataDir });
  const app = createApp({ engine, token: TOKEN, version: "1.2.3" });
  const listening = await listen({ app, host: "127.0.0.1", port: 0 });
  return {
    engine,
    log,
    listening,
    async close() {
      await listening.close();
      await engine.drain({ graceMs: 0 });
      await log.close();
    },
  };
}

/** `#script` and the steps, as the scripted agent takes them. */
export { script } from "../support/engine.ts";

/** All events of an instance, in order. */
export interface Heard {
  readonly content: OutputEvent[];
  readonly lifecycle: LifecycleEvent[];
  readonly stdout: string[];
  readonly stderr: string[];
  reasons(): string[];
  text(): string;
}

export function hear(sluice: Sluice): Heard {
  const heard = {
    content: [] as OutputEvent[],
    lifecycle: [] as LifecycleEvent[],
    stdout: [] as string[],
    stderr: [] as string[],
    reasons: () => heard.lifecycle.map(({ reason }) => reason),
    text: () =>
      heard.content
        .map(({ update }) =>
          update.sessionUpdate === "agent_message_chunk" && update.content.type === "text"
            ? update.content.text
            : "",
        )
        .join(""),
  };
  sluice.on("content", (event) => heard.content.push(event));
  sluice.on("lifecycle", (event) => heard.lifecycle.push(event));
  sluice.on("stdout", (chunk) => heard.stdout.push(chunk));
  sluice.on("stderr", (chunk) => heard.stderr.push(chunk));
  return heard;
}

/** Resolves with the next lifecycle event for this reason. */
export function next(sluice: Sluice, reason: LifecycleEvent["reason"]): Promise<LifecycleEvent> {
  return new Promise((resolve) => {
    const listener = (event: LifecycleEvent): void => {
      if (event.reason !== reason) return;
      sluice.off("lifecycle", listener);
      resolve(event);
    };
    sluice.on("lifecycle", listener);
  });
}
