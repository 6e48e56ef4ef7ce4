import { accessSync, constants, existsSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { harnesses } from "../harness/index.ts";
import type { Harness } from "../harness/port.ts";
import { createDriver } from "../sqlite/driver.ts";
import { defaultProviders } from "../sandbox/choose.ts";
import type { SandboxProvider } from "../sandbox/port.ts";
import { type AgentCheckup, checkAgent } from "./agentCheckup.ts";
import { dataDirOf } from "./dataDir.ts";
import { DEFAULT_URL, isHealthy, type WhereOptions } from "./locate.ts";
import { tokenFile } from "./token.ts";
import { openLog } from "./wiring.ts";
import { readVersion } from "./version.ts";

/** What this machine has of all that sluice can use, and what to do where something is missing. */
export interface Checkup {
  readonly version: string;
  readonly node: Finding & { version: string };
  readonly sqlite: Finding & { driver: string; version?: string };
  readonly data: Finding & { folder: string; sessions?: number; token: boolean };
  readonly server: Finding & { url: string };
  readonly agents: readonly AgentCheckup[];
  readonly sandboxes: readonly (Finding & { id: string; isolated: boolean })[];
  /** What sessions run in that name none; null where nothing isolates, and they are refused. */
  readonly defaultSandbox: string | null;
}

export interface Finding {
  readonly ok: boolean;
  /** Why not, or what to do. */
  readonly hint?: string;
  /** The one command that helps. */
  readonly command?: string;
}

export async function checkUp(
  where: WhereOptions,
  env: NodeJS.ProcessEnv = process.env,
  agents: readonly Harness[] = harnesses,
): Promise<Checkup> {
  const folder = dataDirOf(where.data, env);
  const sandboxes = await Promise.all(
    defaultProviders({ root: join(folder, "sandboxes"), hide: [folder] }).map(checkSandbox),
  );
  return {
    version: readVersion(),
    node: checkNode(process.versions.node),
    sqlite: checkSqlite(),
    data: await checkData(folder),
    server: await checkServer(where.server ?? env["SLUICE_URL"] ?? DEFAULT_URL),
    agents: await Promise.all(agents.map((harness) => checkAgent(harness, env))),
    sandboxes,
    defaultSandbox: sandboxes.find(({ ok, isolated }) => ok && isolated)?.id ?? null,
  };
}

function checkNode(version: string): Checkup["node"] {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  if (major > 20 || (major === 20 && minor >= 19)) return { ok: true, version };
  return { ok: false, version, hint: "sluice needs Node 20.19 or newer" };
}

function checkSqlite(): Checkup["sqlite"] {
  try {
    const database = createDriver(":memory:");
    const version = String(database.prepare("SELECT sqlite_version() AS version").get()?.["version"]);
    database.close();
    return { ok: true, driver: "libsql", version };
  } catch (error) {
    const hint = `the SQLite driver does not load here (${(error as Error).message}); run npm ci again`;
    return { ok: false, driver: "libsql", hint };
  }
}

async function checkData(folder: string): Promise<Checkup["data"]> {
  const token = existsSync(tokenFile(folder));
  const isThere = existsSync(folder);
  try {
    accessSync(isThere ? folder : nearest(folder), constants.R_OK | constants.W_OK | constants.X_OK);
  } catch {
    return { ok: false, folder, token, hint: "this user may not write there; choose another with --data" };
  }
  if (!isThere) return { ok: true, folder, token, hint: "made at the first use" };
  if ((statSync(folder).mode & 0o077) !== 0) {
    return { ok: false, folder, token, hint: `others can read it; chmod 700 ${folder}` };
  }
  return { ...(await countSessions(folder)), folder, token };
}

/** The folder in which the first of those that are missing would be made. */
function nearest(folder: string): string {
  const parent = dirname(folder);
  return parent === folder || existsSync(parent) ? parent : nearest(parent);
}

async function countSessions(folder: string): Promise<Finding & { sessions?: number }> {
  try {
    const log = openLog(folder, { mustExist: true });
    if (!log) return { ok: true, sessions: 0 };
    const [newest] = await log.list({ limit: 1 });
    await log.close();
    return { ok: true, sessions: newest?.ordinal ?? 0 };
  } catch (error) {
    return { ok: false, hint: (error as Error).message };
  }
}

async function checkServer(url: string): Promise<Checkup["server"]> {
  if (await isHealthy(url.replace(/\/+$/, ""))) return { ok: true, url };
  return { ok: false, url, hint: "nobody answers there; `sluice serve` starts one" };
}

async function checkSandbox(provider: SandboxProvider): Promise<Checkup["sandboxes"][number]> {
  const { available, reason, remedy } = await provider.detect();
  const isolated = provider.isolated !== false;
  const open = isolated ? undefined : "no isolation: the agent can do whatever this user can do";
  const hint = reason ?? open;
  const facts = { ...(hint ? { hint } : {}), ...(remedy ? { command: remedy } : {}) };
  return { ok: available, id: provider.id, isolated, ...facts };
}
