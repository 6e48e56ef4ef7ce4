import { join } from "node:path";
import { type Catalog, createCatalog } from "../../catalog/index.ts";
import { findHarness } from "../../harness/index.ts";
import {
  createCredentialBroker,
  type CredentialBroker,
} from "../../http/anthropic/vaults/credential-broker.ts";
import { createMcpRelay, type McpRelay } from "../../http/anthropic/vaults/mcp-relay.ts";
import { readWebhookKey, webhookKeyFile } from "../../http/anthropic/webhooks/signature.ts";
import type { Webhooks } from "../../http/anthropic/webhooks/webhooks.ts";
import type { App } from "../../http/app.ts";
import { stderrLogger } from "../../http/context.ts";
import { OWN_ADDRESSES } from "../../http/origin.ts";
import { listen, type Listening } from "../../http/server.ts";
import { defaultProviders } from "../../sandbox/choose.ts";
import { createSandboxDebug, type Engine, type EngineOptions } from "../../sessions/index.ts";
import { dataDirOf, ensureDataDir, tokenFile } from "../source/data-folder.ts";
import { openEngine } from "../source/engine.ts";
import { noteServer } from "../source/server-note.ts";
import { EXIT } from "../terminal/failure.ts";
import { readVersion } from "../terminal/invocation.ts";
import { type CommandContext, onInterrupt } from "../terminal/screen.ts";
import {
  demandIsolation,
  refuseOpenAccess,
  refuseUnseparatedKeys,
  secretsOf,
  type ServeOptions,
  tokenOf,
} from "./access.ts";

const GRACE_MS = 5_000;
/** The time limit for closing sessions, requests and files after the grace. */
const CLOSING_MS = 5_000;

export async function serve(options: ServeOptions, { screen, exit }: CommandContext): Promise<void> {
  refuseOpenAccess(options);
  if (options.agent !== undefined) findHarness(options.agent);
  // Before anything is written: a folder that is not sluice's is refused and stays as it is.
  const dataDir = ensureDataDir(dataDirOf(options.data));
  const providers = defaultProviders({ root: join(dataDir, "sandboxes"), hide: [dataDir] });
  let token: string | undefined;
  let catalog: Catalog | undefined;
  let relay: McpRelay | undefined;
  let broker: CredentialBroker | undefined;
  let webhooks: Webhooks | undefined;
  let forgetServer: (() => void) | undefined;
  const closeServices = async (): Promise<void> => {
    await webhooks?.close();
    await relay?.close();
    await broker?.close();
    await catalog?.close();
  };
  const engine = await openEngine(dataDir, () => {
    token = tokenOf(options, dataDir);
    catalog = createCatalog({ folder: dataDir });
    relay = createMcpRelay({ catalog, folder: dataDir });
    broker = createCredentialBroker({ catalog, folder: dataDir });
    const { equip, verdict: mcpVerdict } = relay;
    const { lend } = broker;
    const debug = options.debug?.includes("sandbox") ? createSandboxDebug(stderrLogger) : undefined;
    const onCommit: NonNullable<EngineOptions["onCommit"]> = (session, events) => {
      webhooks?.committed(session, events);
      debug?.(session, events);
    };
    const secrets = secretsOf(token, options.keys);
    const { sandbox } = options;
    const sandboxes = sandbox === undefined ? {} : { defaultSandbox: sandbox };
    const orphanMs = options.orphanMinutes * 60_000;
    const retention = { keepMs: options.keep, keepBytes: options.keepBytes };
    const given = { onCommit, secrets, orphanMs, retention, providers, recoversBeside: true, ...sandboxes };
    return { logger: stderrLogger, equip, mcpVerdict, lend, ...given };
  }).catch(async (error: unknown) => {
    await closeServices();
    throw error;
  });
  try {
    if (!catalog) throw new Error("the catalog was not opened");
    if (options.keys) refuseUnseparatedKeys(options.keys, { token, sandbox: await engine.defaultSandbox() });
    const { host, port, agent: defaultAgent, webhook: urls = [], keys: workspaces, rateLimit } = options;
    if (urls.length > 0) {
      const { createWebhooks } = await import("../../http/anthropic/webhooks/webhooks.ts");
      webhooks = createWebhooks({ log: engine.log, catalog, urls, key: readWebhookKey(dataDir) });
    }
    const settings = { host, port, token, catalog, defaultAgent, webhooks, workspaces, rateLimit };
    const { allowHost: allowedHosts, allowOrigin: allowedOrigins } = options;
    const uploads = join(dataDir, "uploads");
    const server = await startServer(engine, { ...settings, allowedHosts, allowedOrigins, uploads });
    const stopped = untilStopped();
    // The port answers health checks already. The line that is printed below says that sessions can start.
    await demandIsolation(providers, options.sandbox)
      .then(() => server.load())
      .catch(async (error: unknown) => {
        await server.close();
        throw error;
      });
    forgetServer = noteServer(dataDir, server.url);
    await screen.line(`sluice listening on ${server.url}`);
    screen.note(toHint(options, dataDir));
    if (options.sandbox === "local")
      screen.note("Sessions have no isolation (--sandbox local): an agent can do whatever this user can do.");
    if (webhooks) screen.note(`The webhook key is in ${webhookKeyFile(dataDir)}`);
    await stopped;
    forgetServer();
    exitAfter(GRACE_MS + CLOSING_MS);
    await engine.drain({ graceMs: GRACE_MS });
    await server.close();
    exit(EXIT.ok);
  } finally {
    forgetServer?.();
    await engine.close();
    await closeServices();
    await engine.log.close();
  }
}

interface ServerSettings {
  readonly host: string;
  readonly port: number;
  readonly token: string | undefined;
  /** Further host names of the server. */
  readonly allowedHosts?: readonly string[] | undefined;
  /** The origins of pages that may call the server. */
  readonly allowedOrigins?: readonly string[] | undefined;
  /** The resources of clients. The caller closes the catalog. */
  readonly catalog: Catalog;
  readonly defaultAgent?: string | undefined;
  readonly webhooks?: Webhooks | undefined;
  /** Further keys with their workspaces. */
  readonly workspaces?: Readonly<Record<string, string>> | undefined;
  /** Requests a minute for each key of the Anthropic dialect. */
  readonly rateLimit?: number | undefined;
  /** The folder of unfinished uploads. */
  readonly uploads?: string | undefined;
}

function startServer(engine: Engine, settings: ServerSettings): Promise<Listening> {
  const { host, port, token, catalog, defaultAgent, webhooks, workspaces, rateLimit } = settings;
  // A server on all addresses answers to each address, but only to names that it was given.
  const isEverywhere = /^(0\.0\.0\.0|\[?::\]?)$/.test(host);
  const allowedHosts = [isEverywhere ? OWN_ADDRESSES : host, ...(settings.allowedHosts ?? [])];
  const { allowedOrigins = [] } = settings;
  const options = {
    engine,
    token: token ?? false,
    version: readVersion(),
    allowedHosts,
    allowedOrigins,
    ...(settings.uploads !== undefined && { uploads: settings.uploads }),
  } as const;
  const load = async (): Promise<App> => {
    const { createApp } = await import("../../http/app.ts");
    return createApp({
      ...options,
      catalog,
      ...(defaultAgent === undefined ? {} : { defaultAgent }),
      ...(webhooks && { webhooks }),
      ...(workspaces && { workspaces }),
      ...(rateLimit !== undefined && { rateLimit: { perMinute: rateLimit } }),
    });
  };
  return listen({ app: { load, version: options.version }, host, port });
}

function toHint(options: ServeOptions, dataDir: string): string {
  if (options.token === false)
    return "No token is asked for: every program of this machine can use the server.";
  if (options.token !== undefined) return "The token is the one given by --token.";
  if (process.env["SLUICE_TOKEN"]) return "The token is the one in SLUICE_TOKEN.";
  return `The token is in ${tokenFile(dataDir)}`;
}

/** Resolves at the first signal; the second one exits at once. */
function untilStopped(): Promise<void> {
  return new Promise((resolve) => {
    let count = 0;
    onInterrupt((signal) => {
      count += 1;
      if (count > 1) process.exit(signal === "SIGINT" ? 130 : 143);
      resolve();
    });
  });
}

/** Exits after the time limit; the next start recovers, as after a kill. */
function exitAfter(ms: number): void {
  const exit = (): void => {
    stderrLogger({
      level: "warn",
      message: "The server could not close everything in time and exits now",
      ms,
    });
    process.exit(EXIT.ok);
  };
  setTimeout(exit, ms).unref();
}
