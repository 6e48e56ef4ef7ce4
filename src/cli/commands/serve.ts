import { type Command, InvalidArgumentError, Option } from "commander";
import { findHarness } from "../../harness/index.ts";
import { dataDirOf } from "../dataDir.ts";
import { CliFailure, EXIT } from "../failure.ts";
import type { CommandContext } from "../program.ts";
import { onInterrupt } from "../signals.ts";
import { ensureToken, isSendable, tokenFile } from "../token.ts";
import { openCatalog, openEngine, startServer } from "../wiring.ts";
import type { Catalog } from "../../catalog/port.ts";
import {
  createMcpRelay,
  createWebhooks,
  type McpRelay,
  readWebhookKey,
  webhookKeyFile,
  type Webhooks,
} from "../../http/index.ts";

const EXAMPLES = `
Every request needs the token: "Authorization: Bearer <token>". It is made on the first start and kept in the
data folder, readable by you alone. SIGTERM and Ctrl-C give running turns 5 seconds, then let go of them;
the next start picks them up again.

Checkpoints are kept in the data folder, or where SLUICE_CHECKPOINTS says: a folder, or s3://bucket/prefix with
AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, and AWS_REGION or AWS_ENDPOINT_URL where they are needed.

With --webhook, endpoints are told what happens to the sessions, in the form that client.beta.webhooks.unwrap of
@anthropic-ai/sdk takes. The key that it asks for is made on first use: webhook.key in the data folder. What an
endpoint does not take is sent again, also after a restart; after 20 failures in a row it is given up until then.

Examples:
  sluice serve
  sluice serve --port 0 --data ./data
  curl -H "Authorization: Bearer $(cat ~/.local/share/sluice/token)" http://127.0.0.1:7411/v1/sessions

Exit codes: 0 stopped by a signal · 1 failed, such as a port in use · 2 bad usage
`;

const GRACE_MS = 5_000;

interface ServeOptions {
  readonly host: string;
  readonly port: number;
  readonly data?: string;
  /** `false` is `--no-token`. */
  readonly token?: string | false;
  readonly insecure?: boolean;
  readonly agent?: string;
  readonly webhook?: readonly string[];
}

export function addServe(program: Command, context: CommandContext): void {
  program
    .command("serve")
    .description("Serve the sessions over HTTP.")
    .option("--host <address>", "the address to listen on", "127.0.0.1")
    .option("--port <port>", "the port to listen on; 0 picks a free one", parsePort, 7411)
    .option("--data <folder>", "the data folder (default: $XDG_DATA_HOME/sluice)")
    .option("--token <token>", "this token instead of the data folder's own")
    .option("--no-token", "ask for no token")
    .option("--agent <agent>", "the agent of sessions that name none (a Managed Agents model may not tell)")
    .option("--webhook <url>", "tell this endpoint what happens to the sessions; may be repeated", addUrl)
    .addOption(new Option("--insecure", "allow --no-token beyond this machine").hideHelp())
    .addHelpText("after", EXAMPLES)
    .action((options: ServeOptions) => serve(options, context));
}

async function serve(options: ServeOptions, { screen, exit }: CommandContext): Promise<void> {
  refuseOpenDoor(options);
  if (options.agent !== undefined) findHarness(options.agent);
  const dataDir = dataDirOf(options.data);
  let token: string | undefined;
  let catalog: Catalog | undefined;
  let relay: McpRelay | undefined;
  let webhooks: Webhooks | undefined;
  const closeBeside = async (): Promise<void> => {
    await webhooks?.close();
    await relay?.close();
    await catalog?.close();
  };
  const engine = await openEngine(dataDir, () => {
    token = tokenOf(options, dataDir);
    catalog = openCatalog(dataDir);
    relay = createMcpRelay({ catalog, folder: dataDir });
    const { equip } = relay;
    const onCommit: Webhooks["committed"] = (session, events) => webhooks?.committed(session, events);
    return { equip, onCommit, ...(token !== undefined && { secrets: new Map([["token", token]]) }) };
  }).catch(async (error: unknown) => {
    await closeBeside();
    throw error;
  });
  try {
    if (!catalog) throw new Error("the catalog was not opened");
    const { host, port, agent: defaultAgent, webhook: urls = [] } = options;
    if (urls.length > 0)
      webhooks = createWebhooks({ log: engine.log, catalog, urls, key: readWebhookKey(dataDir) });
    const server = await startServer(engine, { host, port, token, catalog, defaultAgent, webhooks });
    const stopped = untilStopped();
    await screen.line(`sluice listening on ${server.url}`);
    screen.note(toHint(options, dataDir));
    if (webhooks) screen.note(`The webhook key is in ${webhookKeyFile(dataDir)}`);
    await stopped;
    await engine.drain({ graceMs: GRACE_MS });
    await server.close();
    exit(EXIT.ok);
  } finally {
    await engine.close();
    await closeBeside();
    await engine.log.close();
  }
}

function refuseOpenDoor({ host, token, insecure }: ServeOptions): void {
  if (token !== false || insecure || isLoopback(host)) return;
  throw new CliFailure(
    `--no-token on ${host} would let everybody who can reach this machine run programs on it. ` +
      "Leave --no-token out, listen on 127.0.0.1, or say --insecure if you mean it.",
    EXIT.usage,
  );
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || host === "[::1]" || /^127(\.\d{1,3}){3}$/.test(host);
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

function addUrl(text: string, before: readonly string[] = []): readonly string[] {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url && /^https?:$/.test(url.protocol) && url.username === "") return [...before, text];
  throw new InvalidArgumentError("A webhook endpoint is an http or https URL without a user name.");
}

function parsePort(text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) <= 65_535) return Number(text);
  throw new InvalidArgumentError("A port is a number from 0 to 65535.");
}
