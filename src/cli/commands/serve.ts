import { type Command, InvalidArgumentError, Option } from "commander";
import { DEFAULT_ORPHAN_MS } from "../../sessions/index.ts";
import { parseAddress } from "../../postgres/address.ts";
import {
  parseWorkspaceBudget,
  parseWorkspacePerMinute,
  readKeysFile,
  type ServeOptions,
} from "../serve/access.ts";
import { serve } from "../serve/server.ts";
import { parseDuration, parsePort, parseSize } from "../terminal/amount.ts";
import type { CommandContext } from "../terminal/screen.ts";

const EXAMPLES = `
Every request needs the token: "Authorization: Bearer <token>". The first start creates it in the data folder,
readable by you alone. SIGTERM and Ctrl-C give running turns 5 seconds and then release them; the next start
resumes them.

Checkpoints are in the data folder, or in SLUICE_CHECKPOINTS: a folder, or s3://bucket/prefix with
AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, and AWS_REGION or AWS_ENDPOINT_URL if needed.

With a --host other than loopback, the server answers only to known names: localhost, its own addresses, and each
--allow-host.

With --keys, teams share a server. The file, private to you (chmod 600), is a JSON object of keys and workspaces,
{"sk-team-a": "team-a"}. A key opens its workspace alone, in every dialect. The server's own token opens all sessions;
\`sluice token create\` makes tokens that may do less. Sessions of a workspace reach only public hosts: no address of
this machine or its network, by any name. --keys needs a token and a sandbox other than local.

--keep deletes sessions whose last event is older, as DELETE does, and trims older events of the other sessions: whole
turns, never the last one. --keep-bytes trims idle sessions while the log is larger, then deletes them, the longest
idle first. A session with a "ttl" (seconds) is deleted that long after its last event. A session that runs, is paused,
waits for an answer or has a queued message is never deleted.

With --webhook, endpoints get the events of sessions in the form of client.beta.webhooks.unwrap of @anthropic-ai/sdk.
Its key is created on first use: webhook.key in the data folder. A failed delivery is repeated, also after a restart;
after 20 failures in a row the endpoint is skipped until the next restart.

With --database, the log and the resources of clients are in PostgreSQL; sandboxes stay in the data folder. Several
servers may share a database, each with a data folder of its own: any of them answers every request, and forwards it to
the node that has the session where this is needed. Nodes of several machines need --advertise. The sessions of a node
that dies go to the others when its lease is over; their workspaces stay behind. Secrets are encrypted with
SLUICE_SEAL_KEY (32 bytes in hex or base64; "new,old" changes it), else with the file that SLUICE_SEAL_KEY_FILE names,
else with catalog.key of the data folder. It needs the package postgres.

With --otlp, or with OTEL_EXPORTER_OTLP_ENDPOINT, a collector gets the spans by OTLP/HTTP in JSON (port 4318 of most).
OTEL_EXPORTER_OTLP_HEADERS, OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES have their usual meaning. Spans hold names,
numbers and times, and no text of a prompt or an answer.

Examples:
  sluice serve
  sluice serve --port 0 --data ./data
  SLUICE_TOKEN="$(pass show sluice)" sluice serve
  curl -H "Authorization: Bearer $(cat ~/.local/share/sluice/token)" http://127.0.0.1:7411/v1/sessions

Sessions run in bwrap, or in docker if bwrap does not work. If neither works, the server does not start, unless
--sandbox local allows agents to do whatever this user may do.

Exit codes: 0 stopped by a signal · 1 failed, such as a port in use or no isolation · 2 bad usage
`;

export function addServe(program: Command, context: CommandContext): void {
  program
    .command("serve")
    .description("Serve the sessions over HTTP.")
    .option("--host <address>", "the address to listen on", parseHost, "127.0.0.1")
    .option("--port <port>", "the port to listen on; 0 picks a free one", parsePort, 7411)
    .option("--data <folder>", "the data folder (default: $XDG_DATA_HOME/sluice)")
    .option(
      "--token <token>",
      "this token instead of the data folder's own; $SLUICE_TOKEN keeps it out of the process list",
    )
    .option("--no-token", "ask for no token")
    .option("--allow-origin <origin>", "allow pages of this origin; may be repeated", addOrigin)
    .option("--allow-host <name>", "answer to this name too, as behind a proxy; may be repeated", addHost)
    .option("--agent <agent>", "the agent for a Managed Agents model that belongs to no known agent")
    .addOption(
      new Option("--sandbox <provider>", "the default sandbox (default: bwrap, else docker)").choices([
        "bwrap",
        "docker",
        "local",
      ]),
    )
    .option("--keys <file>", "further keys, each for a workspace of its own", readKeysFile)
    .option(
      "--workspace-budget <[name=]amount>",
      "the most that each workspace, or one, may use: 50usd, team-a=10usd, 5M-tokens; may be repeated",
      parseWorkspaceBudget,
    )
    .option(
      "--workspace-per-minute <amount>",
      "the most that each workspace, or one, may ask models for in a minute: 60-requests, team-a=200k-tokens; may be repeated",
      parseWorkspacePerMinute,
    )
    .option("--rate-limit <n>", "requests a minute for each key of /anthropic", parseRate)
    .option(
      "--orphan-minutes <n>",
      "how long idle agents outlive a killed server without a successor; 0: for ever",
      parseMinutes,
      DEFAULT_ORPHAN_MS / 60_000,
    )
    .option(
      "--keep <duration>",
      "delete sessions without an event for this long (45m, 12h, 30d), and older events",
      parseDuration,
    )
    .option(
      "--keep-bytes <size>",
      "limit the log to this size (500MB, 10GB): the longest idle sessions go first",
      parseSize,
    )
    .addOption(new Option("--debug <what...>", "log internal events to stderr").choices(["sandbox"]))
    .option("--otlp <url>", "send spans of turns, model requests and tools to this OpenTelemetry collector")
    .option("--webhook <url>", "send the events of sessions to this endpoint; may be repeated", addUrl)
    .option(
      "--allow-webhook-host <host>",
      "a private host, or host:port, that webhooks of workspaces may reach; may be repeated",
      addHost,
    )
    .option(
      "--database <url>",
      "keep sessions in PostgreSQL; $SLUICE_DATABASE keeps a password out of the process list",
      parseDatabase,
    )
    .option(
      "--database-direct <url>",
      "the same database without a pooler, to hear of writes at once",
      parseDatabase,
    )
    .option(
      "--advertise <url>",
      "where the other nodes reach this one (default: --host and --port)",
      parseAdvertised,
    )
    .option("--node <name>", "the name of this node in the database (default: the host's)", parseName)
    .option("--lease <seconds>", "how long a dead node keeps its sessions (default: 10)", parseLease)
    .addOption(new Option("--insecure", "allow --no-token beyond this machine").hideHelp())
    .addHelpText("after", EXAMPLES)
    .action((options: ServeOptions) => serve(options, context));
}

function parseDatabase(text: string): string {
  try {
    parseAddress(text);
    return text;
  } catch (error) {
    throw new InvalidArgumentError((error as Error).message);
  }
}

function parseName(text: string): string {
  if (/^[\w.-]{1,64}$/.test(text)) return text;
  throw new InvalidArgumentError("A name has up to 64 letters, digits, '.', '_' and '-'.");
}

function parseAdvertised(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isOrigin = url && /^https?:$/.test(url.protocol) && `${url.pathname}${url.search}${url.hash}` === "/";
  if (isOrigin && url.username === "") return url.origin;
  throw new InvalidArgumentError(
    "An address for the other nodes looks like http://10.0.0.2:7411, without a path.",
  );
}

function parseLease(text: string): number {
  const seconds = Number(text);
  if (text.trim() !== "" && seconds >= 1 && seconds <= 3600) return seconds;
  throw new InvalidArgumentError("A lease is a number of seconds from 1 to 3600.");
}

function parseMinutes(text: string): number {
  const minutes = Number(text);
  if (text.trim() !== "" && minutes >= 0 && minutes <= 10_080) return minutes;
  throw new InvalidArgumentError("a number of minutes, at most a week, or 0 for ever.");
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
