import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { SluiceError, type Launch, type SessionSpec } from "../contract/index.ts";
import type { Harness } from "../harness/port.ts";
import { homeFolder } from "../sandbox/homeFolder.ts";
import { isSecretName } from "./redact.ts";

/** What of the host a session's agent is given: its keys, by the names that its harness and its session say. */
export interface Credentials {
  /** The harness's own variables; how the CLI gets them is the harness's to say. */
  readonly env: Readonly<Record<string, string>>;
  /** What the session named by reference: variables of the agent's environment. */
  readonly secrets: Readonly<Record<string, string>>;
  readonly files: NonNullable<Launch["files"]>;
  /** Where its model is, as the server was told. */
  readonly addresses: Readonly<Record<string, string>>;
  /** Every value in them, so that no event can hold one. */
  readonly values: ReadonlyMap<string, string>;
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
  host: CredentialHost = THIS_HOST,
): Promise<Credentials> {
  const values = new Map<string, string>();
  const env: Record<string, string> = {};
  const files: { path: string; content: string; mode: number }[] = [];
  const given = new Set([...Object.keys(spec.env ?? {}), ...Object.keys(spec.secrets ?? {})]);
  for (const credential of harness.credentials ?? []) {
    if (!("env" in credential)) continue;
    const value = host.env[credential.env];
    if (value === undefined || value === "" || given.has(credential.env)) continue;
    env[credential.env] = value;
    values.set(credential.env, value);
  }
  const hasKey =
    Object.keys(env).length > 0 ||
    harness.credentials?.some((known) => "env" in known && given.has(known.env));
  // A login that lies in a file serves where no key is set.
  for (const credential of hasKey ? [] : (harness.credentials ?? [])) {
    if (!("file" in credential)) continue;
    const content = await readFile(join(host.home, credential.file), "utf8").catch(() => undefined);
    if (content === undefined) continue;
    files.push({ path: credential.file, content, mode: 0o600 });
    for (const [name, value] of secretsIn(content)) values.set(`${credential.file} ${name}`, value);
  }
  const secrets: Record<string, string> = {};
  for (const [name, reference] of Object.entries(spec.secrets ?? {})) {
    const value = await readReference(name, reference, host);
    values.set(name, value);
    secrets[name] = value;
    if (isKey(harness, name)) env[name] = value;
  }
  return { env, secrets, files, addresses: readAddresses(harness, given, host), values };
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
    if (new URL(value).password === "") found[name] = value;
  }
  return found;
}

/** Whether the variable is the CLI's own key, which nobody else in the sandbox needs. */
export function isKey({ credentials = [] }: Harness, name: string): boolean {
  return credentials.some((known) => "env" in known && known.env === name);
}

async function readReference(name: string, reference: string, host: CredentialHost): Promise<string> {
  if (reference.startsWith("env:")) {
    const value = host.env[reference.slice(4)];
    if (value !== undefined && value !== "") return value;
    throw missing(
      name,
      `the server's environment has no ${reference.slice(4)}; set it and start sluice again`,
    );
  }
  const path = reference.slice("file:".length);
  const content = await readFile(path, "utf8").catch((error: Error) => {
    throw missing(name, `${path} cannot be read: ${error.message}`);
  });
  return content.replace(/\r?\n$/, "");
}

function missing(name: string, why: string): SluiceError {
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
    if (typeof found === "string" && isSecretName(name)) yield [name, found];
    if (typeof found === "object" && found !== null) todo.push(...Object.entries(found));
  }
}
