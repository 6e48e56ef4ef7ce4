import type { Command } from "commander";
import { createClient, type SluiceClient, SluiceClientError } from "../../client/index.ts";
import { CliFailure, EXIT } from "../terminal/failure.ts";
import { quoteWord } from "../terminal/invocation.ts";
import { dataDirOf, isHidden, readToken } from "./data-folder.ts";
import { hasLog, openEngine, openLog } from "./engine.ts";
import { createFolderSandboxes, createFolderSource } from "./folder.ts";
import { createServerSandboxes, createServerSource } from "./server.ts";
import type { Sandboxes, Source } from "./port.ts";

export const DEFAULT_URL = "http://127.0.0.1:7411";
/** The time limit of a health check. */
const ANSWER_MS = 500;

export interface WhereOptions {
  readonly server?: string;
  readonly token?: string;
  readonly data?: string;
}

/** The source of sessions: `--server`, else `SLUICE_URL`, else a server on the default port, else the data folder. */
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

function noData(folder: string): CliFailure {
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

/** A named server, or the one on the default port if it takes the token of the data folder. */
export async function locateServer(
  where: WhereOptions,
  env: NodeJS.ProcessEnv = process.env,
): Promise<{ client: SluiceClient; url: string } | undefined> {
  const named = where.server ?? (env["SLUICE_URL"] || undefined);
  const url = toServerUrl(named ?? DEFAULT_URL);
  // With --data only the server of that folder counts; the folder's token identifies it.
  const isAnyServer = named !== undefined || where.data === undefined;
  const given = where.token ?? (isAnyServer ? env["SLUICE_TOKEN"] || undefined : undefined);
  const token = given ?? readToken(dataDirOf(where.data, env));
  const client = createClient({ url, ...(token ? { token } : {}) });
  if (named) return { client, url };
  if (!(await isHealthy(url))) return undefined;
  // Another user's server on the default port must not hide this user's data folder.
  return (await acceptsToken(client)) ? { client, url } : undefined;
}

export async function isHealthy(url: string): Promise<boolean> {
  try {
    const response = await fetch(`${url}/healthz`, { signal: AbortSignal.timeout(ANSWER_MS) });
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
  const url = /^https?:\/\//.test(text) ? text : `http://${text}`;
  if (!URL.canParse(url))
    throw new CliFailure(`"${text}" is not a server's URL. It looks like ${DEFAULT_URL}.`, EXIT.usage);
  return new URL(url).href.replace(/\/+$/, "");
}

/** The options of commands that read sessions from a server or the data folder. */
export function addWhereOptions(command: Command): Command {
  return command
    .option(
      "--server <url>",
      "the server to ask (default: $SLUICE_URL, then http://127.0.0.1:7411 if it answers)",
    )
    .option("--token <token>", "its token (default: $SLUICE_TOKEN, then the token file of the data folder)")
    .option(
      "--data <folder>",
      "the data folder to read where no server is found (default: $XDG_DATA_HOME/sluice)",
    );
}

/** The options as they are written on a command line, for hints. */
export function toWhereWords({ server, data }: { server?: string; data?: string | undefined }): string {
  const words = Object.entries({ server, data }).filter(([, value]) => value !== undefined);
  return words.map(([name, value]) => ` --${name} ${quoteWord(value ?? "")}`).join("");
}
