import { join } from "node:path";
import { type Command, InvalidArgumentError, Option } from "commander";
import { findHarness } from "../../harness/index.ts";
import { parseDuration, parseSize } from "../amount.ts";
import { dataDirOf, ensureDataDir } from "../dataDir.ts";
import { demandIsolation } from "../isolation.ts";
import { CliFailure, EXIT } from "../failure.ts";
import type { CommandContext } from "../program.ts";
import { readKeysFile } from "../keysFile.ts";
import { onInterrupt } from "../signals.ts";
import { ensureToken, isSendable, tokenFile } from "../token.ts";
import { openCatalog, startServer } from "../server.ts";
import { openEngine } from "../wiring.ts";
import type { Catalog } from "../../catalog/port.ts";
import { createCredentialDesk, type CredentialDesk } from "../../http/anthropic/credential-desk.ts";
import { createMcpRelay, type McpRelay } from "../../http/anthropic/mcp-relay.ts";
import { readWebhookKey, webhookKeyFile } from "../../http/anthropic/webhooks/secret.ts";
import type { Webhooks } from "../../http/anthropic/webhooks/webhooks.ts";
import { stderrLogger } from "../../http/logger.ts";
import { defaultProviders } from "../../sandbox/choose.ts";
import { createSandboxDebug, DEFAULT_ORPHAN_MS, type EngineOptions } from "../../sessions/index.ts";

const EXAMPLES = `
Every request needs the token: "Authorization: Bearer <token>". It is made on the first start and kept in the
data folder, readable by you alone. SIGTERM and Ctrl-C give running turns 5 seconds, then let go of them;
the next start picks them up again.

Checkpoints are kept in the data folder, or where SLUICE_CHECKPOINTS says: a folder, or s3://bucket/prefix with
AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, and AWS_REGION or AWS_ENDPOINT_URL where they are needed.

With --host other than loopback, the server still answers only to names that it was told: localhost, its own addresses,
and each --allow-host.

With --keys, teams share a server: the file, closed to others (chmod 600), is a JSON object of keys and the names of
their workspaces, {"sk-team-a": "team-a"}. A key opens /anthropic alone, and there only what its workspace made.
The server's own token opens all sessions. A workspace reaches hosts of the internet alone: no address of this machine
or its network, by any name. --keys needs a token and a sandbox other than local.

--keep deletes sessions whose last event is older, as DELETE does, and trims events that are older from the others:
whole turns, and never the last one. --keep-bytes trims resting sessions while the log is larger, then deletes them,
the longest resting first. A session with a "ttl" (seconds) is deleted that long after its last event. One that runs,
is paused, waits for an answer or has a queued message is never deleted.

With --webhook, endpoints are told what happens to the sessions, in the form that client.beta.webhooks.unwrap of
@anthropic-ai/sdk takes. The key that it asks for is made on first use: webhook.key in the data folder. What an
endpoint does not take is sent again, also after a restart; after 20 failures in a row it is given up until then.

Examples:
  sluice serve
  sluice serve --port 0 --data ./data
  curl -H "Authorization: Bearer $(cat ~/.local/share/sluice/token)" http://127.0.0.1:7411/v1/sessions

Sessions run in bwrap, or in docker where bwrap does not work. Where neither does the server does not start, unless
--sandbox local says that agents may do whatever this user may do.

Exit codes: 0 stopped by a signal · 1 failed, such as a port in use or no isolation · 2 bad usage
`;

const GRACE_MS = 5_000;
/** For all that follows the grace: letting go of sessions, requests and files. */
const LETTING_GO_MS = 5_000;

interface ServeOptions {
  readonly host: string;
  readonly port: number;
  readonly data?: string;
  /** `false` is `--no-token`. */
  readonly token?: string | false;
  readonly insecure?: boolean;
  readonly allowOrigin?: readonly string[];
  readonly allowHost?: readonly string[];
  readonly agent?: string;
  readonly sandbox?: string;
  readonly webhook?: readonly string[];
  readonly debug?: readonly string[];
  /** Workspaces by their keys. */
  readonly keys?: Readonly<Record<string, string>>;
  readonly rateLimit?: number;
  readonly orphanMinutes: number;
  /** In milliseconds. */
  readonly keep?: number;
  readonly keepBytes?: number;
}

export function addServe(program: Command, context: CommandContext): void {
  program
    .command("serve")
    .description("Serve the sessions over HTTP.")
    .option("--host <address>", "the address to listen on", parseHost, "127.0.0.1")
    .option("--port <port>", "the port to listen on; 0 picks a free one", parsePort, 7411)
    .option("--data <folder>", "the data folder (default: $XDG_DATA_HOME/sluice)")
    .option("--token <token>", "this token instead of the data folder's own")
    .option("--no-token", "ask for no token")
    .option("--allow-origin <origin>", "let pages of this origin call; may be repeated", addOrigin)
    .option("--allow-host <name>", "answer to this name too, as behind a proxy; may be repeated", addHost)
    .option("--agent <agent>", "the agent of sessions that name none (a Managed Agents model may not tell)")
    .addOption(
      new Option(
        "--sandbox <provider>",
        "where sessions run that name none (default: bwrap, else docker)",
      ).choices(["bwrap", "docker", "local"]),
    )
    .option("--keys <file>", "further API keys of /anthropic, each for a workspace of its own", readKeysFile)
    .option("--rate-limit <n>", "how many requests a minute one key may send to /anthropic", parseRate)
    .option(
      "--orphan-minutes <n>",
      "how long idle agents live when this server is killed and none takes its place; 0: for ever",
      parseMinutes,
      DEFAULT_ORPHAN_MS / 60_000,
    )
    .option(
      "--keep <duration>",
      "delete sessions without an event for so long (45m, 12h, 30d), and events older than that",
      parseDuration,
    )
    .option(
      "--keep-bytes <size>",
      "keep the log to this size (500MB, 10GB): the longest resting goes first",
      parseSize,
    )
    .addOption(new Option("--debug <what...>", "log what happens inside, to stderr").choices(["sandbox"]))
    .option("--webhook <url>", "tell this endpoint what happens to the sessions; may be repeated", addUrl)
    .addOption(new Option("--insecure", "allow --no-token beyond this machine").hideHelp())
    .addHelpText("after", EXAMPLES)
    .action((options: ServeOptions) => serve(options, context));
}

async function serve(options: ServeOptions, { screen, exit }: CommandContext): Promise<void> {
  refuseOpenDoor(options);
  if (options.agent !== undefined) findHarness(options.agent);
  // Before anything of ours is put there: what is found in it tells whose it is.
  const dataDir = ensureDataDir(dataDirOf(options.data));
  const providers = defaultProviders({ root: join(dataDir, "sandboxes"), hide: [dataDir] });
  let token: string | undefined;
  let catalog: Catalog | undefined;
  let relay: McpRelay | undefined;
  let desk: CredentialDesk | undefined;
  let webhooks: Webhooks | undefined;
  const closeBeside = async (): Promise<void> => {
    await webhooks?.close();
    await relay?.close();
    await desk?.close();
    await catalog?.close();
  };
  const engine = await openEngine(dataDir, () => {
    token = tokenOf(options, dataDir);
    catalog = openCatalog(dataDir);
    relay = createMcpRelay({ catalog, folder: dataDir });
    desk = createCredentialDesk({ catalog, folder: dataDir });
    const { equip, verdict: mcpVerdict } = relay;
    const { lend } = desk;
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
    await closeBeside();
    throw error;
  });
  try {
    if (!catalog) throw new Error("the catalog was not opened");
    if (options.keys) refuseSharedMachine(options.keys, { token, sandbox: await engine.defaultSandbox() });
    const { host, port, agent: defaultAgent, webhook: urls = [], keys: workspaces, rateLimit } = options;
    if (urls.length > 0) {
      const { createWebhooks } = await import("../../http/anthropic/webhooks/webhooks.ts");
      webhooks = createWebhooks({ log: engine.log, catalog, urls, key: readWebhookKey(dataDir) });
    }
    const settings = { host, port, token, catalog, defaultAgent, webhooks, workspaces, rateLimit };
    const { allowHost: allowedHosts, allowOrigin: allowedOrigins } = options;
    const drafts = join(dataDir, "uploads");
    const server = await startServer(engine, { ...settings, allowedHosts, allowedOrigins, drafts });
    const stopped = untilStopped();
    // It answers already, and what needs a sandbox waits for the same probe. Who reads the line may start sessions.
    await demandIsolation(providers, options.sandbox).catch(async (error: unknown) => {
      await server.close();
      throw error;
    });
    await screen.line(`sluice listening on ${server.url}`);
    screen.note(toHint(options, dataDir));
    if (options.sandbox === "local")
      screen.note("Sessions have no isolation (--sandbox local): an agent can do whatever this user can do.");
    if (webhooks) screen.note(`The webhook key is in ${webhookKeyFile(dataDir)}`);
    await stopped;
    leaveAfter(GRACE_MS + LETTING_GO_MS);
    await engine.drain({ graceMs: GRACE_MS });
    await server.close();
    exit(EXIT.ok);
  } finally {
    await engine.close();
    await closeBeside();
    await engine.log.close();
  }
}

function refuseOpenDoor({ host, token, insecure, allowOrigin, keys }: ServeOptions): void {
  if (token === false && keys)
    throw new CliFailure(
      "--keys with --no-token would make everybody without a key the owner of all workspaces. Leave --no-token out.",
      EXIT.usage,
    );
  if (token !== false || insecure) return;
  if (allowOrigin?.includes("*")) {
    throw new CliFailure(
      "--no-token with --allow-origin '*' would let every page in your browser run programs on this machine. " +
        "Leave --no-token out, name the origins, or say --insecure if you mean it.",
      EXIT.usage,
    );
  }
  if (isLoopback(host)) return;
  throw new CliFailure(
    `--no-token on ${host} would let everybody who can reach this machine run programs on it. ` +
      "Leave --no-token out, listen on 127.0.0.1, or say --insecure if you mean it.",
    EXIT.usage,
  );
}

/** What only the opened data folder can tell. */
function refuseSharedMachine(
  keys: NonNullable<ServeOptions["keys"]>,
  { token, sandbox }: { token: string | undefined; sandbox: string },
): void {
  if (sandbox === "local")
    throw new CliFailure(
      "--keys with the local sandbox would let the agents of every workspace read and change the files of all others. " +
        "Use bwrap or docker; `sluice doctor` says what is missing.",
      EXIT.usage,
    );
  if (token !== undefined && Object.hasOwn(keys, token))
    throw new CliFailure(
      "A key of --keys is the server's own token, which opens all workspaces. Give the workspace another key.",
      EXIT.usage,
    );
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || host === "[::1]" || /^127(\.\d{1,3}){3}$/.test(host);
}

function parseMinutes(text: string): number {
  const minutes = Number(text);
  if (text.trim() !== "" && minutes >= 0 && minutes <= 10_080) return minutes;
  throw new InvalidArgumentError("a number of minutes, at most a week, or 0 for ever.");
}

function tokenOf(options: ServeOptions, dataDir: string): string | undefined {
  if (options.token === false) return undefined;
  if (options.token === "")
    throw new CliFailure("The token is empty. Leave --token out to have one made.", EXIT.usage);
  if (options.token === undefined) return ensureToken(dataDir);
  if (isSendable(options.token)) return options.token;
  throw new CliFailure(
    "No client could send this token: it has to be one word of visible ASCII characters.",
    EXIT.usage,
  );
}

/** What opens this server must never stand in an event of it. */
function secretsOf(token: string | undefined, keys: ServeOptions["keys"] = {}): Map<string, string> {
  const named = Object.entries(keys).map(([key, workspace]) => [`key of ${workspace}`, key] as const);
  return new Map([...(token === undefined ? [] : [["token", token] as const]), ...named]);
}

function toHint(options: ServeOptions, dataDir: string): string {
  if (options.token === false)
    return "No token is asked for: every program of this machine can use the server.";
  return options.token === undefined
    ? `The token is in ${tokenFile(dataDir)}`
    : "The token is the one given by --token.";
}

/** The first signal asks for a drain; the second does not wait for it. */
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

/** Whatever hangs then: it is found again at the next start, as after a kill. */
function leaveAfter(ms: number): void {
  const leave = (): void => {
    stderrLogger({
      level: "warn",
      message: "The server did not let go of everything in time, and ends now",
      ms,
    });
    process.exit(EXIT.ok);
  };
  setTimeout(leave, ms).unref();
}

function addUrl(text: string, before: readonly string[] = []): readonly string[] {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url && /^https?:$/.test(url.protocol) && url.username === "") return [...before, text];
  throw new InvalidArgumentError("A webhook endpoint is an http or https URL without a user name.");
}

function addOrigin(text: string, before: readonly string[] = []): readonly string[] {
  const isOrigin = URL.canParse(text) && /^[a-z][a-z0-9+.-]*:\/\/[^/?#@]+\/?$/i.test(text);
  if (text === "*" || isOrigin) return [...before, text];
  throw new InvalidArgumentError("An origin looks like http://localhost:3000; * is any.");
}

function parseHost(text: string): string {
  if (text.trim() !== "") return text.trim();
  throw new InvalidArgumentError(
    "An address is 127.0.0.1, ::1 or a name of this machine; 0.0.0.0 is all of them.",
  );
}

function addHost(text: string, before: readonly string[] = []): readonly string[] {
  if (/^[^\s/@]+$/.test(text)) return [...before, text];
  throw new InvalidArgumentError("A host is a name, such as sluice.example.com.");
}

function parseRate(text: string): number {
  if (/^[1-9]\d{0,5}$/.test(text)) return Number(text);
  throw new InvalidArgumentError("A rate is a number of requests from 1 to 999999.");
}

function parsePort(text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) <= 65_535) return Number(text);
  throw new InvalidArgumentError("A port is a number from 0 to 65535.");
}
