import { createClient, type SluiceClient, SluiceClientError } from "../client/index.ts";
import { dataDirOf, isHidden } from "./dataDir.ts";
import { CliFailure, EXIT } from "./failure.ts";
import { createFolderSandboxes } from "./folderSandboxes.ts";
import { createFolderSource } from "./folderSource.ts";
import type { Sandboxes } from "./sandboxes.ts";
import { createServerSandboxes } from "./serverSandboxes.ts";
import { createServerSource } from "./serverSource.ts";
import type { Source } from "./source.ts";
import { readToken } from "./token.ts";
import { hasLog, openEngine, openLog } from "./wiring.ts";

export const DEFAULT_URL = "http://127.0.0.1:7411";
const ANSWER_MS = 500;

export interface WhereOptions {
  readonly server?: string;
  readonly token?: string;
  readonly data?: string;
}

/** `--server`, else `SLUICE_URL`, else the default port if somebody answers there, else the data folder. */
export async function locateSource(
  where: WhereOptions,
  env: NodeJS.ProcessEnv = process.env,
): Promise<Source> {
  const server = await locateServer(where, env);
  if (server) return createServerSource(server.client, server.url);
  const folder = dataDirOf(where.data, env);
  const log = await openLog(folder, { mustExist: true });
  if (log) return createFolderSource(log, folder);
  throw nothingThere(folder);
}

/** Where the sandboxes of sessions are reached; on the data folder itself, an engine is started for it. */
export async function locateSandboxes(
  where: WhereOptions,
  env: NodeJS.ProcessEnv = process.env,
): Promise<Sandboxes> {
  const server = await locateServer(where, env);
  if (server) return createServerSandboxes(server.client, server.url);
  const folder = dataDirOf(where.data, env);
  if (!hasLog(folder)) throw nothingThere(folder);
  return createFolderSandboxes(await openEngine(folder), folder);
}

function nothingThere(folder: string): CliFailure {
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

export async function locateServer(
  where: WhereOptions,
  env: NodeJS.ProcessEnv = process.env,
): Promise<{ client: SluiceClient; url: string } | undefined> {
  const named = where.server ?? (env["SLUICE_URL"] || undefined);
  const url = toServerUrl(named ?? DEFAULT_URL);
  // Whoever names a folder means the server of that folder, and its token shows which one that is.
  const isFree = named !== undefined || where.data === undefined;
  const given = where.token ?? (isFree ? env["SLUICE_TOKEN"] || undefined : undefined);
  const token = given ?? readToken(dataDirOf(where.data, env));
  const client = createClient({ url, ...(token ? { token } : {}) });
  if (named) return { client, url };
  if (!(await isHealthy(url))) return undefined;
  // Somebody else's server on the default port must not hide one's own data folder.
  return (await accepts(client)) ? { client, url } : undefined;
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

async function accepts(client: SluiceClient): Promise<boolean> {
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
