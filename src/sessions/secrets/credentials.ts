import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { defined } from "../../contract/own-keys.ts";
import { SluiceError, type Launch, type SessionSpec } from "../../contract/index.ts";
import type { Credential, Harness, LentLogin } from "../../harness/port.ts";
import { homeFolder } from "../../sandbox/data-folder.ts";
import { isKept, type KeptSecrets } from "./kept.ts";
import { isSecretName } from "./redact.ts";

/** The keys and logins of this host that a session's agent gets. Its harness and its spec name them. */
export interface Credentials {
  /** The harness's own variables, for its `launch`. */
  readonly env: Readonly<Record<string, string>>;
  /** The values of the session's secrets, by their variables in the agent's environment. */
  readonly secrets: Readonly<Record<string, string>>;
  /** The login for an agent without a key. */
  readonly login?: FoundLogin;
  /** The addresses of the model, from the server's environment. */
  readonly addresses: Readonly<Record<string, string>>;
  /** Every secret value, for redaction. */
  readonly values: ReadonlyMap<string, string>;
}

/** A login of the server's user that an agent may use. */
export interface FoundLogin {
  /** Relative to the user's home, and to the agent's home. */
  readonly file: string;
  readonly lent: LentLogin;
  /** Files beside the login that are not secret. */
  readonly companions: NonNullable<Launch["files"]>;
  /** The part of a login file that an agent may have. Also used for the login in the agent's home, which may be newer. */
  lend(content: string): LentLogin | undefined;
}

export interface CredentialHost {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly home: string;
}

const THIS_HOST: CredentialHost = { env: process.env, home: homeFolder() };

export interface CredentialSources {
  readonly kept: Pick<KeptSecrets, "read">;
  readonly lent?: readonly string[];
  readonly host?: CredentialHost;
}

/** Reads the credentials for a start. They are stored nowhere. */
export async function readCredentials(
  harness: Harness,
  spec: SessionSpec,
  { kept, lent = [], host = THIS_HOST }: CredentialSources,
): Promise<Credentials> {
  const values = new Map<string, string>();
  const env: Record<string, string> = {};
  const given = new Set([...Object.keys(spec.env ?? {}), ...Object.keys(spec.secrets ?? {}), ...lent]);
  const addresses = readAddresses(harness, given, host);
  const specWithAddresses = { ...spec, env: { ...addresses, ...spec.env } };
  const known = harness.credentialsFor?.(specWithAddresses) ?? harness.credentials ?? [];
  const hasOwn = known.some((credential) => "env" in credential && given.has(credential.env));
  const key = hasOwn ? undefined : findKey(known, host);
  if (key !== undefined) {
    env[key.name] = key.value;
    values.set(key.name, key.value);
  }
  // A login file is used where no key is set.
  const login =
    hasOwn || key !== undefined ? undefined : await findLogin(known, specWithAddresses, { host, values });
  const secrets: Record<string, string> = {};
  for (const [name, reference] of Object.entries(spec.secrets ?? {})) {
    const value = await readReference(name, reference, { kept, host });
    values.set(name, value);
    secrets[name] = value;
    if (isKey(harness, name)) env[name] = value;
  }
  return { env, secrets, ...defined({ login }), addresses, values };
}

/** The first key that is set. */
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
    // All secrets of the file are redacted, also those that the agent does not get.
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

/** The most secrets of one login file. An agent could write any number into its own. */
const MAX_SECRETS = 32;

/** Adds the secret values of a login file to those that are redacted. Equal names get different labels. */
export function collectSecrets(file: string, content: string, values: Map<string, string>): void {
  let count = 0;
  for (const [name, value] of secretsIn(content)) {
    let label = `${file} ${name}`;
    while (values.has(label) && values.get(label) !== value) label += "'";
    values.set(label, value);
    if (++count === MAX_SECRETS) return;
  }
}

/** The keys of every agent on this host. They are redacted, because an agent may read another agent's key. */
export function hostKeys(
  harnesses: readonly Harness[],
  { env }: Pick<CredentialHost, "env"> = THIS_HOST,
): Map<string, string> {
  const names = harnesses.flatMap(({ credentials = [] }) =>
    credentials.flatMap((known) => ("env" in known ? [known.env] : [])),
  );
  return new Map(names.flatMap((name) => (env[name] ? [[name, env[name]]] : [])));
}

/** The addresses that hold no secret. */
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

/** Whether the variable is the CLI's own key, which no other program in the sandbox needs. */
export function isKey({ credentials = [] }: Harness, name: string): boolean {
  return credentials.some((known) => "env" in known && known.env === name);
}

async function readReference(
  name: string,
  reference: string,
  { kept, host }: Required<Pick<CredentialSources, "kept" | "host">>,
): Promise<string> {
  if (isKept(reference)) {
    const value = await kept.read(name, reference);
    if (value !== undefined) return value;
    throw missingSecret(name, "its value is not in the database any more; create the session again");
  }
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

/** `access` and `refresh` are the tokens of OpenCode. */
function isSecretField(name: string): boolean {
  return isSecretName(name) || name === "access" || name === "refresh";
}
