import type { Command } from "commander";
import { createClient, type SluiceClient, SluiceClientError } from "../../client/index.ts";
import { readConfig } from "../config.ts";
import { badUsage, CliFailure } from "../terminal/failure.ts";
import { quoteWord } from "../terminal/invocation.ts";
import { dataDirOf, isHidden, readToken } from "./data-folder.ts";
import { hasLog, openEngine, openLog } from "./engine.ts";
import { createFolderSandboxes, createFolderSource } from "./folder.ts";
import { createServerControls } from "./controls.ts";
import { createServerSandboxes, createServerSource } from "./server.ts";
import { readServer } from "./server-note.ts";
import type { Controls, Sandboxes, Source } from "./port.ts";

export const DEFAULT_URL = "http://127.0.0.1:7411";
/** The time limit of a health check. */
const ANSWER_MS = 500;
/** The time limit for a server whose process is alive: it may be busy. */
const PATIENT_MS = 10_000;

export interface WhereOptions {
  readonly server?: string;
  readonly token?: string;
  readonly data?: string;
}

/**
 * The source of sessions: `--server`, else `SLUICE_URL`, else the config file, else the running server of the data
 * folder, else the data folder.
 */
export async function locateSource(
  where: WhereOptions,
  env: NodeJS.ProcessEnv = process.env,
): Promise<Source> {
  const server = await locateServer(where, env);
  if (server) return createServerSource(server.client, server.url);
  const folder = dataDirOf(where.data, env);
  const log = await openLog(folder, { mustExist: true });
  if (log) return createFolderSource(log, folder);
  throw noData(folder);
}

/** The sandboxes of sessions: through a server, else through a new engine on the data folder. */
export async function locateSandboxes(
  where: WhereOptions,
  env: NodeJS.ProcessEnv = process.env,
): Promise<Sandboxes> {
  const server = await locateServer(where, env);
  if (server) return createServerSandboxes(server.client, server.url);
  const folder = dataDirOf(where.data, env);
  if (!hasLog(folder)) throw noData(folder);
  return createFolderSandboxes(await openEngine(folder), folder);
}

/** A running server, for commands that change its sessions. */
export async function demandServer(
  where: WhereOptions,
  env: NodeJS.ProcessEnv = process.env,
): Promise<Server> {
  const refused: string[] = [];
  const server = await locateServer(where, env, refused);
  if (server) return server;
  const folder = dataDirOf(where.data, env);
  const [url] = refused;
  if (url !== undefined)
    throw new CliFailure(
      `The server at ${url} refuses the token. Set SLUICE_TOKEN to the server's own token.`,
    );
  throw new CliFailure(
    `No server is running for ${folder}. Start one with \`sluice serve\`, or name one with --server URL.`,
  );
}

/** Commands on the sessions of a running server. */
export async function locateControls(where: WhereOptions): Promise<Controls> {
  const { client, url } = await demandServer(where);
  return createServerControls(client, url);
}

/** The failure where neither a server nor a data folder is found. */
export function noData(folder: string): CliFailure {
  if (isHidden(folder)) {
    return new CliFailure(
      `No server answers at ${DEFAULT_URL}, and this user may not look into ${folder}. ` +
        "Name a server with --server URL, or another folder with --data.",
    );
  }
  return new CliFailure(
    `No server answers at ${DEFAULT_URL}, and there is no data in ${folder}. ` +
      "Start one with `sluice serve`, name one with --server URL, or run something with `sluice run`.",
  );
}

/** A server, and its client with a token. */
export interface Server {
  readonly client: SluiceClient;
  readonly url: string;
}

/**
 * The server that is named by an option, the environment or the config file, else the data folder's own. `refused`
 * collects the URLs of servers that accept no known token.
 */
export async function locateServer(
  where: WhereOptions,
  env: NodeJS.ProcessEnv = process.env,
  refused: string[] = [],
): Promise<Server | undefined> {
  const named = await namedServer(where, env);
  if (named) return named;
  const folder = dataDirOf(where.data, env);
  const own = readServer(folder);
  const ownToken = readToken(folder);
  const given = where.token ?? (env["SLUICE_TOKEN"] || undefined);
  if (own !== undefined) {
    const server = await findAccepting(own, given ?? ownToken, { refused, ms: PATIENT_MS });
    if (server) return server;
    // The folder's token may do more than the given one, so it does not take its place.
    if (given !== undefined && refused.includes(own)) throw refusedToken(own, where);
  }
  // With --data only the server of that folder counts. The folder's token identifies it, and SLUICE_TOKEN does not.
  const token = where.data === undefined ? (given ?? ownToken) : (where.token ?? ownToken);
  return own === DEFAULT_URL ? undefined : findAccepting(DEFAULT_URL, token, { refused, ms: ANSWER_MS });
}

function refusedToken(url: string, { token }: WhereOptions): CliFailure {
  const help =
    token === undefined
      ? "It is the one in SLUICE_TOKEN; without that variable, the token of the data folder is used."
      : "Without --token, the token of the data folder is used.";
  return new CliFailure(`The server at ${url} refuses the token. ${help}`);
}

/** The server of `--server`, `SLUICE_URL` or the config file. It need not answer. */
export async function namedServer(
  where: WhereOptions,
  env: NodeJS.ProcessEnv = process.env,
): Promise<Server | undefined> {
  const named = where.server ?? (env["SLUICE_URL"] || undefined);
  // --data names a folder, so the config file is ignored then. The file's token is only for the file's server.
  const config = named === undefined && where.data === undefined ? await readConfig(env) : {};
  const text = named ?? config.server;
  if (text === undefined) return undefined;
  const url = toServerUrl(text);
  const token =
    where.token ??
    (env["SLUICE_TOKEN"] || undefined) ??
    config.token ??
    readToken(dataDirOf(where.data, env));
  return { client: createClient({ url, ...(token ? { token } : {}) }), url };
}

/** The server if it accepts the token. Another user's server must not hide this user's data folder. */
async function findAccepting(
  url: string,
  token: string | undefined,
  { refused, ms }: { refused: string[]; ms: number },
): Promise<Server | undefined> {
  if (!(await isHealthy(url, ms))) return undefined;
  const client = createClient({ url, ...(token === undefined ? {} : { token }) });
  if (await acceptsToken(client)) return { client, url };
  refused.push(url);
  return undefined;
}

export async function isHealthy(url: string, ms = ANSWER_MS): Promise<boolean> {
  try {
    const response = await fetch(`${url}/healthz`, { signal: AbortSignal.timeout(ms) });
    await response.arrayBuffer();
    return response.ok;
  } catch {
    return false;
  }
}

async function acceptsToken(client: SluiceClient): Promise<boolean> {
  try {
    await client.sessions.list({ limit: 1 });
    return true;
  } catch (error) {
    if (error instanceof SluiceClientError && error.status === 401) return false;
    throw error;
  }
}

function toServerUrl(text: string): string {
  const url = text.includes("://") ? text : `http://${text}`;
  const isUrl = URL.canParse(url) && /^https?:$/.test(new URL(url).protocol);
  if (!isUrl) throw badUsage(`"${text}" is not a server's URL. It looks like ${DEFAULT_URL}.`);
  const { username, password, href } = new URL(url);
  if (username !== "" || password !== "")
    throw badUsage("A server's URL holds no name and no password. The token is in SLUICE_TOKEN.");
  return href.replace(/\/+$/, "");
}

/** The options of commands that read sessions from a server or the data folder. */
export function addWhereOptions(command: Command): Command {
  return command
    .option(
      "--server <url>",
      "the server to ask (default: $SLUICE_URL, then the config file, then the running server of the data folder)",
    )
    .option("--token <token>", "its token (default: $SLUICE_TOKEN, then the token file of the data folder)")
    .option(
      "--data <folder>",
      "the data folder to read where no server is found (default: $XDG_DATA_HOME/sluice)",
    );
}

/** The options of commands that need a running server. */
export function addServerOptions(command: Command): Command {
  return command
    .option(
      "--server <url>",
      "the server (default: $SLUICE_URL, then the config file, then the running server of the data folder)",
    )
    .option(
      "--token <token>",
      "its token; $SLUICE_TOKEN keeps it out of the process list (default: the data folder's own)",
    )
    .option("--data <folder>", "the data folder whose server is meant (default: $XDG_DATA_HOME/sluice)");
}

/** The options as they are written on a command line, for hints. */
export function toWhereWords({ server, data }: { server?: string; data?: string | undefined }): string {
  const words = Object.entries({ server, data }).filter(([, value]) => value !== undefined);
  return words.map(([name, value]) => ` --${name} ${quoteWord(value ?? "")}`).join("");
}
