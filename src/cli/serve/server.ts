import { join } from "node:path";
import { own } from "../../contract/own-keys.ts";
import { isOpenSandbox } from "../../contract/index.ts";
import { type Catalog, createCatalog } from "../../catalog/index.ts";
import { findHarness } from "../../harness/index.ts";
import {
  createCredentialBroker,
  type CredentialBroker,
} from "../../http/anthropic/vaults/credential-broker.ts";
import { createMcpRelay, type McpRelay } from "../../http/anthropic/vaults/mcp-relay.ts";
import { readWebhookKey, webhookKeyFile } from "../../http/webhooks/signature.ts";
import type { OtlpExporter } from "../../http/otlp/exporter.ts";
import { type OtlpSettings, readOtlpSettings } from "../../http/otlp/settings.ts";
import type { Webhooks } from "../../http/webhooks/webhooks.ts";
import type { RateLimit } from "../../http/anthropic/mount.ts";
import type { App } from "../../http/app.ts";
import { stderrLogger } from "../../http/context.ts";
import { OWN_ADDRESSES } from "../../http/origin.ts";
import { listen, type Listening } from "../../http/server.ts";
import { defaultProviders } from "../../sandbox/choose.ts";
import { createSandboxDebug, type Engine, type EngineOptions, keepInFiles } from "../../sessions/index.ts";
import { dataDirOf, ensureDataDir, tokenFile } from "../source/data-folder.ts";
import { databaseSecrets, databaseUrlOf, openDatabase } from "../source/database.ts";
import { openEngine } from "../source/engine.ts";
import type { ServedNodes } from "../source/nodes.ts";
import { keepInBoth, keepInCatalog } from "../source/shared-secrets.ts";
import { noteServer, toReachable } from "../source/server-note.ts";
import { badUsage, EXIT } from "../terminal/failure.ts";
import { readVersion } from "../terminal/invocation.ts";
import type { CommandContext } from "../terminal/screen.ts";
import {
  demandIsolation,
  refuseOpenAccess,
  refuseUnseparatedKeys,
  secretsOf,
  type ServeOptions,
  tokenOf,
} from "./access.ts";
import { CLOSING_MS, exitAfter, replaced, untilStopped } from "./ending.ts";

const GRACE_MS = 5_000;

export async function serve(options: ServeOptions, { screen, exit }: CommandContext): Promise<void> {
  refuseOpenAccess(options);
  if (options.agent !== undefined) findHarness(options.agent);
  // Before anything is written: a folder that is not sluice's is refused and stays as it is.
  const dataDir = ensureDataDir(dataDirOf(options.data));
  const providers = defaultProviders({ root: join(dataDir, "sandboxes"), hide: [dataDir] });
  const databaseUrl = databaseUrlOf(options);
  const database =
    databaseUrl === undefined ? undefined : await openDatabase(databaseUrl, { ...options, dataDir });
  if (!database && options.advertise !== undefined)
    throw badUsage("--advertise is the address of a node among others, which need a --database.");
  let token: string | undefined;
  let catalog: Catalog | undefined;
  let relay: McpRelay | undefined;
  let broker: CredentialBroker | undefined;
  let webhooks: Webhooks | undefined;
  let otlp: OtlpExporter | undefined;
  const spans = readSpanSettings(options.otlp);
  let forgetServer: (() => void) | undefined;
  const closeServices = async (): Promise<void> => {
    await otlp?.close();
    await webhooks?.close();
    await relay?.close();
    await broker?.close();
    await (catalog ?? database?.catalog)?.close();
  };
  const openGiven = () => {
    token = tokenOf(options, dataDir);
    catalog = database?.catalog ?? createCatalog({ folder: dataDir });
    relay = createMcpRelay({ catalog, folder: dataDir });
    broker = createCredentialBroker({ catalog, folder: dataDir });
    const { equip, verdict: mcpVerdict } = relay;
    const { lend } = broker;
    const debug = options.debug?.includes("sandbox") ? createSandboxDebug(stderrLogger) : undefined;
    const onCommit: NonNullable<EngineOptions["onCommit"]> = (session, events) => {
      webhooks?.committed(session, events);
      otlp?.committed(session, events);
      debug?.(session, events);
    };
    const secrets = secretsOf(token, options.keys);
    for (const [name, secret] of databaseSecrets(databaseUrl, options.databaseDirect))
      secrets.set(name, secret);
    const { sandbox } = options;
    const sandboxes = sandbox === undefined ? {} : { defaultSandbox: sandbox };
    // The caretaker reads SQLite.
    const orphanMs = database ? 0 : options.orphanMinutes * 60_000;
    const retention = { keepMs: options.keep, keepBytes: options.keepBytes };
    const { workspaceBudget: budgets = {} } = options;
    const workspaceBudget = (tenant: string) => own(budgets, tenant) ?? own(budgets, "*");
    const { workspacePerMinute: limits = {} } = options;
    const workspacePerMinute = (tenant: string) => own(limits, tenant) ?? own(limits, "*");
    const given = { onCommit, secrets, orphanMs, retention, providers, recoversBeside: true, ...sandboxes };
    // A folder that was moved to the database has the secrets of its sessions.
    const shared = database && keepInBoth(keepInCatalog(database.catalog), keepInFiles(dataDir));
    const owned = database &&
      shared && { ownership: database.ownership, kept: shared, sharedUses: database.counts };
    const workspaceLimits = { workspaceBudget, workspacePerMinute };
    return { logger: stderrLogger, equip, mcpVerdict, lend, ...workspaceLimits, ...owned, ...given };
  };
  const engine = await openEngine(dataDir, openGiven, database?.log).catch(async (error: unknown) => {
    await closeServices();
    await database?.release();
    throw error;
  });
  database?.start(() => void replaced(providers, database.name));
  try {
    if (!catalog) throw new Error("the catalog was not opened");
    if (options.keys) refuseUnseparatedKeys(options.keys, { token, sandbox: await engine.defaultSandbox() });
    const { host, port, agent: defaultAgent, webhook: urls = [], keys: workspaces, rateLimit } = options;
    const { allowWebhookHost } = options;
    const nodes = database?.nodes;
    const key = urls.length > 0 ? { key: readWebhookKey(dataDir) } : {};
    const metadataOf = async (id: string) => (await engine.spec(id)).metadata;
    const webhookOptions = {
      log: engine.log,
      catalog,
      urls,
      ...key,
      allowedHosts: allowWebhookHost,
      metadataOf,
      nodes,
    };
    const openWebhooks = async (): Promise<Webhooks> => {
      const { createWebhooks } = await import("../../http/webhooks/webhooks.ts");
      return (webhooks ??= createWebhooks(webhookOptions));
    };
    if (spans) {
      const { createOtlpExporter } = await import("../../http/otlp/exporter.ts");
      const reports = nodes?.reports.bind(nodes);
      otlp = createOtlpExporter({ ...spans, log: engine.log, catalog, version: readVersion(), reports });
    }
    const limited =
      rateLimit === undefined ? {} : { rateLimit: { perMinute: rateLimit, shared: database?.counts } };
    const settings = {
      host,
      port,
      nodes,
      token,
      catalog,
      defaultAgent,
      openWebhooks,
      workspaces,
      ...limited,
    };
    const { allowHost: allowedHosts, allowOrigin: allowedOrigins } = options;
    const uploads = join(dataDir, "uploads");
    const server = await startServer(engine, { ...settings, otlp, allowedHosts, allowedOrigins, uploads });
    const stopped = untilStopped();
    // The port already answers health checks. The line printed below says that sessions can start.
    await demandIsolation(providers, options.sandbox)
      .then(() => server.load())
      .then(() => nodes?.announce(options.advertise ?? toReachable(server.url)))
      .catch(async (error: unknown) => {
        await server.close();
        throw error;
      });
    forgetServer = noteServer(dataDir, server.url);
    await screen.line(`sluice listening on ${server.url}`);
    screen.note(toHint(options, dataDir));
    screen.note(`The page is at ${toReachable(server.url)}/ui/ and \`sluice open\` opens it`);
    if (options.sandbox === "local")
      screen.note("Sessions have no isolation (--sandbox local): an agent can do whatever this user can do.");
    else if (isOpenSandbox(options.sandbox))
      screen.note(`An agent can do whatever the account of ${options.sandbox} can do there.`);
    if (database) {
      const wakes = database.log.hears
        ? ""
        : "; notifications are not heard there, so readers wait up to a second";
      screen.note(
        `Sessions are in the database ${database.name}${wakes}; this is its node ${database.nodes.name}`,
      );
    }
    for (const warning of database?.warnings ?? []) screen.note(`Warning: of the database, ${warning}`);
    if (urls.length > 0) screen.note(`The webhook key is in ${webhookKeyFile(dataDir)}`);
    await stopped;
    forgetServer();
    exitAfter(GRACE_MS + CLOSING_MS);
    await nodes?.drain();
    await engine.drain({ graceMs: GRACE_MS });
    // The sessions are closed: from here on the other nodes may have them.
    await database?.release();
    await server.close();
    exit(EXIT.ok);
  } finally {
    forgetServer?.();
    await engine.close();
    await closeServices();
    await engine.log.close();
    await database?.release();
  }
}

function readSpanSettings(given: string | undefined): OtlpSettings | undefined {
  try {
    return readOtlpSettings(given);
  } catch (error) {
    throw badUsage((error as Error).message);
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
  /** The other servers of the database. */
  readonly nodes?: ServedNodes | undefined;
  readonly defaultAgent?: string | undefined;
  /** Begins the deliveries. */
  readonly openWebhooks: () => Promise<Webhooks>;
  readonly otlp?: OtlpExporter | undefined;
  /** Further keys with their workspaces. */
  readonly workspaces?: Readonly<Record<string, string>> | undefined;
  /** Of each key of the Anthropic dialect. */
  readonly rateLimit?: RateLimit | undefined;
  /** The folder of unfinished uploads. */
  readonly uploads?: string | undefined;
}

function startServer(engine: Engine, settings: ServerSettings): Promise<Listening> {
  const { host, port, token, catalog, defaultAgent, openWebhooks, workspaces, rateLimit } = settings;
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
    ...(settings.otlp !== undefined && { otlp: settings.otlp }),
    ...(settings.nodes && { nodes: settings.nodes }),
  } as const;
  const load = async (): Promise<App> => {
    const { createApp } = await import("../../http/app.ts");
    const webhooks = await openWebhooks();
    return createApp({
      ...options,
      catalog,
      ...(defaultAgent === undefined ? {} : { defaultAgent }),
      webhooks,
      ...(workspaces && { workspaces }),
      ...(rateLimit && { rateLimit }),
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
