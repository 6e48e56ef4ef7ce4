import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { SluiceError, type Launch, type SessionSpec } from "../contract/index.ts";
import type { Credential, Harness, LentLogin } from "../harness/port.ts";
import { homeFolder } from "../sandbox/homeFolder.ts";
import { isSecretName } from "./redact.ts";

/** What of the host a session's agent is given: its keys, by the names that its harness and its session say. */
export interface Credentials {
  /** The harness's own variables; how the CLI gets them is the harness's to say. */
  readonly env: Readonly<Record<string, string>>;
  /** What the session named by reference: variables of the agent's environment. */
  readonly secrets: Readonly<Record<string, string>>;
  /** The login that serves where there is no key, as the agent gets it. */
  readonly login?: FoundLogin;
  /** Where its model is, as the server was told. */
  readonly addresses: Readonly<Record<string, string>>;
  /** Every value in them, so that no event can hold one. */
  readonly values: ReadonlyMap<string, string>;
}

/** A login of the server's user that an agent may use. */
export interface FoundLogin {
  /** Relative to the user's home, and to the agent's. */
  readonly file: string;
  readonly lent: LentLogin;
  /** What lies beside it and is no secret. */
  readonly companions: NonNullable<Launch["files"]>;
  /** What a newer one in the agent's own home would be lent as. */
  lend(content: string): LentLogin | undefined;
}

export interface CredentialHost {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly home: string;
}

const THIS_HOST: CredentialHost = { env: process.env, home: homeFolder() };

/** Read anew at every start of a process, and stored nowhere. */
export async function readCredentials(
  harness: Harness,
  spec: SessionSpec,
  { lent = [], host = THIS_HOST }: { lent?: readonly string[]; host?: CredentialHost } = {},
): Promise<Credentials> {
  const values = new Map<string, string>();
  const env: Record<string, string> = {};
  const given = new Set([...Object.keys(spec.env ?? {}), ...Object.keys(spec.secrets ?? {}), ...lent]);
  const addresses = readAddresses(harness, given, host);
  const placed = { ...spec, env: { ...addresses, ...spec.env } };
  const known = harness.credentialsFor?.(placed) ?? harness.credentials ?? [];
  const hasOwn = known.some((credential) => "env" in credential && given.has(credential.env));
  const key = hasOwn ? undefined : findKey(known, host);
  if (key !== undefined) {
    env[key.name] = key.value;
    values.set(key.name, key.value);
  }
  // A login that lies in a file serves where no key is set.
  const login = hasOwn || key !== undefined ? undefined : await findLogin(known, placed, { host, values });
  const secrets: Record<string, string> = {};
  for (const [name, reference] of Object.entries(spec.secrets ?? {})) {
    const value = await readReference(name, reference, host);
    values.set(name, value);
    secrets[name] = value;
    if (isKey(harness, name)) env[name] = value;
  }
  return { env, secrets, ...(login === undefined ? {} : { login }), addresses, values };
}

/** The first that is there, and no other. */
function findKey(
  known: readonly Credential[],
  host: CredentialHost,
): { name: string; value: string } | undefined {
  for (const credential of known) {
    const value = "env" in credential ? host.env[credential.env] : undefined;
    if ("env" in credential && value !== undefined && value !== "") return { name: credential.env, value };
  }
  return undefined;
}

async function findLogin(
  known: readonly Credential[],
  spec: SessionSpec,
  { host, values }: { host: CredentialHost; values: Map<string, string> },
): Promise<FoundLogin | undefined> {
  for (const credential of known) {
    if (!("file" in credential) || credential.isCompanion) continue;
    const content = await readLogin(credential.file, host);
    if (content === undefined) continue;
    // Also those that stay outside: an agent that gets hold of one in another way tells nobody.
    collectSecrets(credential.file, content, values);
    const lend = (text: string): LentLogin | undefined => credential.lend(text, spec);
    const lent = lend(content);
    if (lent === undefined) continue;
    return { file: credential.file, lent, companions: await findCompanions(known, spec, host), lend };
  }
  return undefined;
}

async function findCompanions(
  known: readonly Credential[],
  spec: SessionSpec,
  host: CredentialHost,
): Promise<FoundLogin["companions"]> {
  const found: { path: string; content: string; mode: number }[] = [];
  for (const credential of known) {
    if (!("file" in credential) || !credential.isCompanion) continue;
    const content = await readLogin(credential.file, host);
    const lent = content === undefined ? undefined : credential.lend(content, spec);
    if (lent && "content" in lent) found.push({ path: credential.file, content: lent.content, mode: 0o600 });
  }
  return found;
}

async function readLogin(file: string, { home }: CredentialHost): Promise<string | undefined> {
  return readFile(join(home, file), "utf8").catch(() => undefined);
}

/** No login has more; an agent could fill its own with any number. */
const MAX_SECRETS = 32;

/** Puts the secret values of a login file where events are kept from holding them; none takes another's place. */
export function collectSecrets(file: string, content: string, values: Map<string, string>): void {
  let count = 0;
  for (const [name, value] of secretsIn(content)) {
    let label = `${file} ${name}`;
    while (values.has(label) && values.get(label) !== value) label += "'";
    values.set(label, value);
    if (++count === MAX_SECRETS) return;
  }
}

/** The keys of every agent on this host: one that reads another's, where nothing keeps it from that, tells nobody. */
export function hostKeys(
  harnesses: readonly Harness[],
  { env }: Pick<CredentialHost, "env"> = THIS_HOST,
): Map<string, string> {
  const names = harnesses.flatMap(({ credentials = [] }) =>
    credentials.flatMap((known) => ("env" in known ? [known.env] : [])),
  );
  return new Map(names.flatMap((name) => (env[name] ? [[name, env[name]]] : [])));
}

/** No secrets: an address that holds one is not passed on. */
function readAddresses(
  { addresses = [] }: Harness,
  given: ReadonlySet<string>,
  { env }: CredentialHost,
): Record<string, string> {
  const found: Record<string, string> = {};
  for (const name of addresses) {
    const value = env[name];
    if (value === undefined || given.has(name) || !URL.canParse(value)) continue;
    if (!holdsSecret(new URL(value))) found[name] = value;
  }
  return found;
}

function holdsSecret({ username, password, searchParams }: URL): boolean {
  return username !== "" || password !== "" || [...searchParams.keys()].some(isSecretName);
}

/** Whether the variable is the CLI's own key, which nobody else in the sandbox needs. */
export function isKey({ credentials = [] }: Harness, name: string): boolean {
  return credentials.some((known) => "env" in known && known.env === name);
}

async function readReference(name: string, reference: string, host: CredentialHost): Promise<string> {
  if (reference.startsWith("env:")) {
    const value = host.env[reference.slice(4)];
    if (value !== undefined && value !== "") return value;
    throw missingSecret(
      name,
      `the server's environment has no ${reference.slice(4)}; set it and start sluice again`,
    );
  }
  const path = reference.slice("file:".length);
  const content = await readFile(path, "utf8").catch((error: Error) => {
    throw missingSecret(name, `${path} cannot be read: ${error.message}`);
  });
  return content.replace(/\r?\n$/, "");
}

function missingSecret(name: string, why: string): SluiceError {
  return new SluiceError("invalid_request", `The secret ${name} is not there: ${why}.`, { secret: name });
}

/** The secret values of a login file, where it is JSON. */
function* secretsIn(content: string): Generator<[string, string]> {
  let value: unknown;
  try {
    value = JSON.parse(content);
  } catch {
    return;
  }
  const todo: [string, unknown][] = [["", value]];
  for (let next = todo.pop(); next !== undefined; next = todo.pop()) {
    const [name, found] = next;
    if (typeof found === "string" && isSecretField(name)) yield [name, found];
    if (typeof found === "object" && found !== null) todo.push(...Object.entries(found));
  }
}

/** OpenCode calls its tokens by these names alone. */
function isSecretField(name: string): boolean {
  return isSecretName(name) || name === "access" || name === "refresh";
}
