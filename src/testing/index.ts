/** The package entry `sluice/testing`: a server for a test suite, with a model that answers from a cassette. */
import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createCatalog } from "../catalog/index.ts";
import { createClient, type SluiceClient } from "../client/index.ts";
import type { CassetteSpec, SluiceEvent } from "../contract/index.ts";
import { createApp, listen } from "../http/index.ts";
import { createSqliteLog } from "../log/index.ts";
import { createEngine, type EngineOptions, type Logger } from "../sessions/index.ts";

export interface TestServerOptions {
  /** The file of the recordings. */
  readonly cassette: string;
  /** By default `replay` where `CI` is set, else `auto`: a missing request is recorded, if there is a key. */
  readonly mode?: CassetteSpec["mode"];
  /** 0, the default, answers at once; 1 as fast as it was recorded. */
  readonly speed?: number;
  /** The sandbox of sessions that name none. A cassette needs one that isolates. */
  readonly sandbox?: string;
  readonly logger?: Logger;
}

export interface TestServer {
  readonly url: string;
  readonly token: string;
  readonly client: SluiceClient;
  /** Runs one turn in a new session and returns the events of its log. A failed turn is thrown. */
  run(agent: string, prompt: string, spec?: TestSpec): Promise<SluiceEvent[]>;
  /** Ends the server, its agents and its data. */
  close(): Promise<void>;
}

/** Settings of a session, beside the agent and the cassette. */
export type TestSpec = Omit<Parameters<SluiceClient["sessions"]["create"]>[1], "agent" | "cassette">;

/** Starts a server on a free port of loopback, with a data folder of its own. */
export async function startTestServer(options: TestServerOptions): Promise<TestServer> {
  const dataDir = await mkdtemp(join(tmpdir(), "sluice-testing-"));
  const log = createSqliteLog({ folder: dataDir });
  const catalog = createCatalog({ folder: dataDir });
  const token = randomBytes(24).toString("hex");
  const closeStores = async (): Promise<void> => {
    await catalog.close();
    await log.close();
    await rm(dataDir, { recursive: true, force: true });
  };
  try {
    const engine = await createEngine({ log, dataDir, ...toEngineOptions(options) });
    const app = createApp({ engine, token, catalog, version: "testing", ...toLogger(options) });
    const server = await listen({ app, host: "127.0.0.1", port: 0 });
    const client = createClient({ url: server.url, token });
    const made = new Set<string>();
    return {
      url: server.url,
      token,
      client,
      run: (agent, prompt, spec = {}) => run(client, { agent, prompt, spec, made }),
      async close() {
        for (const session of made) await client.sessions.delete(session).catch(() => {});
        await server.close();
        await engine.close();
        await closeStores();
      },
    };
  } catch (error) {
    await closeStores();
    throw error;
  }
}

function toEngineOptions(
  options: TestServerOptions,
): Pick<EngineOptions, "cassette" | "defaultSandbox" | "logger"> {
  const { cassette, speed, sandbox } = options;
  const mode = options.mode ?? (process.env["CI"] ? "replay" : "auto");
  return {
    cassette: { file: resolve(cassette), mode, ...(speed === undefined ? {} : { speed }) },
    ...(sandbox === undefined ? {} : { defaultSandbox: sandbox }),
    ...toLogger(options),
  };
}

function toLogger({ logger = () => {} }: TestServerOptions): { logger: Logger } {
  return { logger };
}

interface Run {
  readonly agent: string;
  readonly prompt: string;
  readonly spec: TestSpec;
  readonly made: Set<string>;
}

async function run(client: SluiceClient, { agent, prompt, spec, made }: Run): Promise<SluiceEvent[]> {
  const session = `test-${randomBytes(8).toString("hex")}`;
  await client.sessions.create(session, { ...spec, agent });
  made.add(session);
  for await (const _ of client.messageStream(session, prompt));
  const events = await client.getEvents(session, { extensions: true });
  const ended = events.findLast((event) => event.type === "turn.ended");
  const failures = events.flatMap(({ type, data }) =>
    type === "model.ended" && data.error !== undefined ? [data.error.message] : [],
  );
  if (ended?.data.status === "completed") return events;
  const why = failures[0] ?? ended?.data.error?.message ?? ended?.data.status ?? "it has no end";
  throw new Error(`The turn of ${agent} did not complete: ${why}`);
}
