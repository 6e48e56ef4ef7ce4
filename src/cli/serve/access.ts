import { readFileSync, statSync } from "node:fs";
import { InvalidArgumentError } from "commander";
import { z } from "zod";
import { isOpenSandbox, type Budget, type PerMinute } from "../../contract/index.ts";
import { RESERVED_TENANTS } from "../../http/auth.ts";
import { chooseProvider } from "../../sandbox/choose.ts";
import type { SandboxProvider } from "../../sandbox/port.ts";
import { ensureToken, isSendable } from "../source/data-folder.ts";
import type { DatabaseOptions } from "../source/database.ts";
import { parseBudget, parsePerMinute } from "../terminal/amount.ts";
import { badUsage } from "../terminal/failure.ts";

export interface ServeOptions extends DatabaseOptions {
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
  readonly otlp?: string;
  readonly allowWebhookHost?: readonly string[];
  readonly debug?: readonly string[];
  /** The workspace of each further API key: the tenant, in the word for clients. */
  readonly keys?: Readonly<Record<string, string>>;
  readonly rateLimit?: number;
  /** By workspace; `*` is every other one. */
  readonly workspaceBudget?: WorkspaceBudgets;
  readonly workspacePerMinute?: WorkspaceRates;
  readonly orphanMinutes: number;
  /** In milliseconds. */
  readonly keep?: number;
  readonly keepBytes?: number;
}

export type WorkspaceBudgets = Readonly<Record<string, Budget>>;

/** `50usd` for every workspace, `team-a=10usd` for one; several options make one budget. */
export function parseWorkspaceBudget(text: string, before: WorkspaceBudgets = {}): WorkspaceBudgets {
  const [, name = "*", amount = ""] = /^(?:([\w.-]{1,64})=)?(.+)$/.exec(text) ?? [];
  const budget = parseBudget(amount, before[name]);
  if (budget.minutes !== undefined)
    throw new InvalidArgumentError("The budget of a workspace is in dollars, tokens or requests.");
  return { ...before, [name]: budget };
}

export type WorkspaceRates = Readonly<Record<string, PerMinute>>;

/** `60-requests` for every workspace, `team-a=200k-tokens` for one; several options make one limit. */
export function parseWorkspacePerMinute(text: string, before: WorkspaceRates = {}): WorkspaceRates {
  const [, name = "*", amount = ""] = /^(?:([\w.-]{1,64})=)?(.+)$/.exec(text) ?? [];
  return { ...before, [name]: parsePerMinute(amount, before[name]) };
}

/** Refuses options that would let everybody use the server. */
export function refuseOpenAccess({ host, token, insecure, allowOrigin, keys }: ServeOptions): void {
  if (token === false && keys)
    throw badUsage(
      "--keys with --no-token would give every client without a key access to all workspaces. Leave --no-token out.",
    );
  if (token !== false || insecure) return;
  if (allowOrigin?.includes("*")) {
    throw badUsage(
      "--no-token with --allow-origin '*' would let every page in your browser run programs on this machine. " +
        "Leave --no-token out, name the origins, or say --insecure if you mean it.",
    );
  }
  if (isLoopback(host)) return;
  throw badUsage(
    `--no-token on ${host} would let every client that reaches this machine run programs on it. ` +
      "Leave --no-token out, listen on 127.0.0.1, or say --insecure if you mean it.",
  );
}

/** Refuses keys whose workspaces would not be separated from each other. */
export function refuseUnseparatedKeys(
  keys: NonNullable<ServeOptions["keys"]>,
  { token, sandbox }: { token: string | undefined; sandbox: string },
): void {
  if (isOpenSandbox(sandbox))
    throw badUsage(
      `--keys with the sandbox ${sandbox} would let the agents of every workspace read and change the files of all others. ` +
        "Use bwrap or docker; `sluice doctor` says what is missing.",
    );
  if (process.env["SLUICE_CASSETTE"])
    throw badUsage(
      "SLUICE_CASSETTE with --keys would answer one workspace with the recordings of another. Leave one of them out.",
    );
  if (token !== undefined && Object.hasOwn(keys, token))
    throw badUsage(
      "A key of --keys is the server's own token, which opens all workspaces. Give the workspace another key.",
    );
}

/** Fails if the default sandbox does not work: no session could start on the server. */
export async function demandIsolation(
  providers: readonly SandboxProvider[],
  named: string | undefined,
): Promise<void> {
  if (named === undefined) return void (await chooseProvider(providers));
  const found = providers.find(({ id }) => id === named);
  const provider = found ?? providers.map((many) => many.named?.(named)).find((one) => one !== undefined);
  await provider?.check?.({});
}

export function tokenOf(options: ServeOptions, dataDir: string): string | undefined {
  if (options.token === false) return undefined;
  if (options.token === "") throw badUsage("The token is empty. Leave --token out to have one made.");
  const token = options.token ?? (process.env["SLUICE_TOKEN"] || undefined);
  if (token === undefined) return ensureToken(dataDir);
  if (isSendable(token)) return token;
  throw badUsage("No client could send this token: it has to be one word of visible ASCII characters.");
}

/** The server's token and keys, to be redacted from events. */
export function secretsOf(token: string | undefined, keys: ServeOptions["keys"] = {}): Map<string, string> {
  const named = Object.entries(keys).map(([key, workspace]) => [`key of ${workspace}`, key] as const);
  return new Map([...(token === undefined ? [] : [["token", token] as const]), ...named]);
}

const Keys = z.record(
  z.string().refine(isSendable, "a key is one word of visible ASCII characters"),
  z.string().regex(/^[\w.-]{1,64}$/, "a workspace is named by letters, digits, '.', '_' and '-'"),
);

/** Reads the further API keys and their workspaces. They are in a file, because the process list shows arguments. */
export function readKeysFile(file: string): Readonly<Record<string, string>> {
  const { mode } = readOrFail(file, () => statSync(file));
  if ((mode & 0o077) !== 0)
    throw badUsage(`Others can read the keys in ${file}. Close it to them: chmod 600 ${file}`);
  const text = readOrFail(file, () => readFileSync(file, "utf8"));
  const parsed = Keys.safeParse(parseJson(text));
  if (!parsed.success) {
    // The path of the issue is left out, because it is the key itself.
    const reason = parsed.error.issues[0]?.code === "invalid_type" ? "no such object" : "a bad key or name";
    throw badUsage(
      `${file} holds ${reason}. It has to be a JSON object of keys and workspaces, such as {"sk-team-a": "team-a"}.`,
    );
  }
  const reserved = Object.values(parsed.data).find((name) => RESERVED_TENANTS.has(name));
  if (reserved !== undefined)
    throw badUsage(
      `${file} names a workspace "${reserved}", which is the server's own. Give it another name.`,
    );
  return parsed.data;
}

function readOrFail<T>(file: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw badUsage(`The keys cannot be read from ${file}: ${(error as NodeJS.ErrnoException).code}.`);
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || host === "[::1]" || /^127(\.\d{1,3}){3}$/.test(host);
}
