import { accessSync, constants, existsSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { coverageOf, harnesses } from "../harness/index.ts";
import type { Choices, Credential, Detected, Harness } from "../harness/port.ts";
import { defaultProviders } from "../sandbox/choose.ts";
import { homeFolder } from "../sandbox/data-folder.ts";
import type { SandboxProvider } from "../sandbox/port.ts";
import { findProvider } from "../sessions/spec.ts";
import { createDriver } from "../sqlite/driver.ts";
import { dataDirOf, tokenFile } from "./source/data-folder.ts";
import { checkDatabase, type DatabaseDiagnostics } from "./database-check.ts";
import { type DatabaseOptions, databaseUrlOf } from "./source/database.ts";
import { openLog } from "./source/engine.ts";
import { DEFAULT_URL, isHealthy, namedServer, type WhereOptions } from "./source/locate.ts";
import { readServer } from "./source/server-note.ts";
import { readVersion } from "./terminal/invocation.ts";

/** The state of sluice on this machine, with a remedy for each missing part. */
export interface Diagnostics {
  readonly version: string;
  readonly node: Finding & { version: string };
  readonly sqlite: Finding & { driver: string; version?: string };
  readonly data: Finding & { folder: string; sessions?: number; token: boolean };
  readonly server: Finding & { url: string };
  /** The database of `--database` or `SLUICE_DATABASE`. */
  readonly database?: DatabaseDiagnostics;
  readonly agents: readonly AgentDiagnostics[];
  readonly sandboxes: readonly (Finding & { id: string; isolated: boolean })[];
  /** The default sandbox of sessions; null without isolation, where sessions are refused. */
  readonly defaultSandbox: string | null;
}

export interface Finding {
  readonly ok: boolean;
  /** The reason or the remedy. */
  readonly hint?: string;
  /** A command as the remedy. */
  readonly command?: string;
}

export async function diagnose(
  where: WhereOptions & DatabaseOptions & { readonly sandbox?: string },
  env: NodeJS.ProcessEnv = process.env,
  agents: readonly Harness[] = harnesses,
): Promise<Diagnostics> {
  const folder = dataDirOf(where.data, env);
  const providers = defaultProviders({ root: join(folder, "sandboxes"), hide: [folder] });
  // A provider on another machine is tried only if it is named.
  const named = where.sandbox === undefined ? undefined : findProvider(where.sandbox, providers);
  const tried = providers.filter(({ hasPrograms }) => !hasPrograms);
  const sandboxes = await Promise.all(
    [...tried, ...(named?.hasPrograms ? [named] : [])].map((provider) => checkSandbox(provider)),
  );
  const url = databaseUrlOf(where, env);
  return {
    version: readVersion(),
    ...(url !== undefined && { database: await checkDatabase(url, where.databaseDirect) }),
    node: checkNode(process.versions.node),
    sqlite: checkSqlite(),
    data: await checkData(folder),
    server: await checkServer((await namedServer(where, env))?.url ?? readServer(folder) ?? DEFAULT_URL),
    agents: await Promise.all(agents.map((harness) => checkAgent(harness, env))),
    sandboxes,
    defaultSandbox:
      (
        sandboxes.find(({ ok, id }) => ok && id === where.sandbox) ??
        sandboxes.find(({ ok, isolated }) => ok && isolated)
      )?.id ?? null,
  };
}

function checkNode(version: string): Diagnostics["node"] {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  if (major > 20 || (major === 20 && minor >= 19)) return { ok: true, version };
  return { ok: false, version, hint: "sluice needs Node 20.19 or newer" };
}

function checkSqlite(): Diagnostics["sqlite"] {
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

async function checkData(folder: string): Promise<Diagnostics["data"]> {
  const token = existsSync(tokenFile(folder));
  const isThere = existsSync(folder);
  try {
    accessSync(isThere ? folder : nearestParent(folder), constants.R_OK | constants.W_OK | constants.X_OK);
  } catch {
    return { ok: false, folder, token, hint: "this user may not write there; choose another with --data" };
  }
  if (!isThere) return { ok: true, folder, token, hint: "created at the first use" };
  if ((statSync(folder).mode & 0o077) !== 0) {
    return { ok: false, folder, token, hint: `other users can read it; chmod 700 ${folder}` };
  }
  return { ...(await countSessions(folder)), folder, token };
}

/** The nearest parent that exists. */
function nearestParent(folder: string): string {
  const parent = dirname(folder);
  return parent === folder || existsSync(parent) ? parent : nearestParent(parent);
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

async function checkServer(url: string): Promise<Diagnostics["server"]> {
  if (await isHealthy(url.replace(/\/+$/, ""))) return { ok: true, url };
  return { ok: false, url, hint: "no server answers there; `sluice serve` starts one" };
}

async function checkSandbox(provider: SandboxProvider): Promise<Diagnostics["sandboxes"][number]> {
  const { available, reason, remedy } = await provider.detect();
  const isolated = provider.isolated !== false;
  const warning = isolated ? undefined : "no isolation: the agent can do whatever this user can do";
  const hint = reason ?? warning;
  const facts = { ...(hint ? { hint } : {}), ...(remedy ? { command: remedy } : {}) };
  return { ok: available, id: provider.id, isolated, ...facts };
}

/** One agent on this machine: its CLI, its keys and its choices. */
export interface AgentDiagnostics {
  readonly ok: boolean;
  readonly id: string;
  readonly title: string;
  readonly version?: string;
  /** The reason or the remedy. */
  readonly hint?: string;
  /** How many features of the coverage matrix its adapter has. */
  readonly features?: number;
  /** Found and possible keys: names of variables and files, never their values. */
  readonly credentials?: { readonly found: readonly string[]; readonly known: readonly string[] };
  /** The place of the credential while the agent works in an isolated sandbox; absent if none was found. */
  readonly credential?: string;
  readonly choices?: Choices;
}

export async function checkAgent(harness: Harness, env: NodeJS.ProcessEnv): Promise<AgentDiagnostics> {
  const { installed, version, hint } = await detect(harness);
  const features = countFeatures(harness);
  const credentials = findCredentials(harness.credentials ?? [], env);
  const advice = hint ?? (installed ? keyHint(credentials) : undefined);
  return {
    ok: installed,
    id: harness.id,
    title: harness.title,
    ...(version === undefined ? {} : { version }),
    ...(advice === undefined ? {} : { hint: advice }),
    ...(features === undefined ? {} : { features }),
    ...(harness.credentials === undefined ? {} : { credentials }),
    ...placeOf(harness, env),
    ...(harness.choices === undefined ? {} : { choices: harness.choices }),
  };
}

/** The place of the credential that a session without its own settings would use. */
function placeOf(harness: Harness, env: NodeJS.ProcessEnv): { credential?: string } {
  const addresses = (harness.addresses ?? []).flatMap((name): [string, string][] =>
    env[name] === undefined ? [] : [[name, env[name]]],
  );
  const spec = { agent: harness.id, env: Object.fromEntries(addresses) };
  const known = harness.credentialsFor?.(spec) ?? harness.credentials ?? [];
  const [first] = findCredentials(known, env).found;
  if (first === undefined) return {};
  const lead = first.startsWith("~") ? "plan_login" : harness.lead?.(spec, first);
  if (lead === "plan_login") return { credential: "inside (plan login)" };
  return { credential: lead === undefined ? "inside (the gateway cannot lead this agent)" : "outside" };
}

/** Detects an agent. A failure becomes a hint, so that it does not hide the other agents. */
async function detect(harness: Harness): Promise<Detected> {
  return harness
    .detect({ withVersion: true })
    .catch((error: Error) => ({ installed: false, hint: error.message }));
}

export function findCredentials(
  credentials: readonly Credential[],
  env: NodeJS.ProcessEnv,
): NonNullable<AgentDiagnostics["credentials"]> {
  const home = homeFolder(env);
  const isThere = (credential: Credential): boolean =>
    "env" in credential ? Boolean(env[credential.env]) : existsSync(join(home, credential.file));
  return { found: credentials.filter(isThere).map(nameOf), known: credentials.map(nameOf) };
}

function nameOf(credential: Credential): string {
  return "env" in credential ? credential.env : `~/${credential.file}`;
}

function keyHint({ found, known }: NonNullable<AgentDiagnostics["credentials"]>): string | undefined {
  if (found.length > 0 || known.length === 0) return undefined;
  const variables = known.filter((name) => !name.startsWith("~"));
  const files = known.filter((name) => name.startsWith("~"));
  const ways = [
    ...(variables.length === 0 ? [] : [`set ${variables.join(" or ")}`]),
    ...(files.length === 0 ? [] : [`log in with its own CLI (${files.join(", ")})`]),
  ];
  return `no key found: ${ways.join(", or ")}`;
}

/** The count of features; undefined for an adapter that learns them only from its CLI. */
function countFeatures(harness: Harness): number | undefined {
  try {
    return Object.values(coverageOf(harness)).filter(Boolean).length;
  } catch {
    return undefined;
  }
}
