import type { CredentialPlace, EventData, GatewayAccess, SessionSpec } from "../../contract/index.ts";
import type { CassetteLaunch } from "../../contract/process.ts";
import type { Credential, Harness, Lead } from "../../harness/port.ts";
import type { Sandbox } from "../../sandbox/port.ts";
import type { SessionRow } from "../../log/port.ts";
import type { SessionDeps } from "../deps.ts";
import { recordedProvider, toCassetteLaunch } from "./cassette.ts";
import { type Credentials, readCredentials } from "./credentials.ts";
import { toPlaceholders } from "./lending.ts";

/** The place of an agent's credential, and the parts of a start through the gateway, if the gateway leads the agent. */
export interface LeadPlan {
  readonly place: CredentialPlace;
  readonly led?: {
    readonly access: GatewayAccess;
    readonly lead: Lead;
    /** The variable of the key, and its value, which stays outside. */
    readonly variable: string;
    /** Undefined for a replay without a key. */
    readonly key: string | undefined;
  };
}

interface LeadSources {
  readonly harness: Harness;
  /** The session's own spec, without addresses of the server. */
  readonly spec: SessionSpec;
  readonly credentials: Pick<Credentials, "env" | "secrets" | "login" | "addresses">;
  /** The names of the variables that hold placeholders of lent secrets. */
  readonly placeholders: readonly string[];
  readonly sandbox: Pick<Sandbox, "gateway">;
  readonly cassette?: FoundCassette | undefined;
}

/** The session's cassette, with the provider that it was recorded with. */
export interface FoundCassette {
  readonly launch: CassetteLaunch;
  readonly provider: string | undefined;
}

/** Decides whether the gateway leads an agent. Any other agent starts with its own key. */
export function planLead(sources: LeadSources): LeadPlan {
  const { harness, spec, credentials, placeholders, sandbox, cassette } = sources;
  const whole = { ...spec, env: { ...credentials.addresses, ...spec.env } };
  const known = harness.credentialsFor?.(whole) ?? harness.credentials ?? [];
  const names = known.flatMap((credential: Credential) => ("env" in credential ? [credential.env] : []));
  if (names.some((name) => placeholders.includes(name))) return { place: "outside" };
  const found = findKey(names, harness.sessionKeys?.(whole) ?? [], { spec, credentials });
  if (found === undefined && cassette !== undefined && cassette.launch.mode !== "record")
    return planReplay(sources, { whole, names: [...names, ...(harness.sessionKeys?.(whole) ?? [])] });
  if (found === undefined) return { place: credentials.login === undefined ? "none" : "plan_login" };
  const lead = harness.lead?.(whole, found.variable);
  if (lead === undefined || lead === "plan_login") return { place: lead ?? "inside" };
  // The server's key goes to no address that a session names: the host at that address would read the key.
  const namesAddress = (harness.addresses ?? []).some((name) => spec.env?.[name] !== undefined);
  const isOwn = found.source === "session" || !namesAddress;
  const access = accessOf(sandbox, spec);
  if (!isOwn || access === undefined) return { place: "inside" };
  const { variable } = found;
  const key = withCompanions(lead, found, { ...spec.env, ...credentials.secrets });
  return { place: "outside", led: { access, lead, variable, key } };
}

/** The credential for the gateway: the key, or a JSON object of the key and its companions. */
function withCompanions(
  { companions }: Lead,
  { variable, key }: { variable: string; key: string },
  given: Readonly<Record<string, string>>,
): string {
  if (companions === undefined) return key;
  const others = companions.map((name) => [name, given[name]]);
  return JSON.stringify({ ...Object.fromEntries(others), [variable]: key });
}

/**
 * The gateway, if the agent can reach it. In a shared network a proxy of the session prevents that: the agent would send
 * its requests to the proxy, and the gateway would not use the proxy.
 */
function accessOf(
  { gateway }: Pick<Sandbox, "gateway">,
  { env = {} }: SessionSpec,
): GatewayAccess | undefined {
  const hasProxy = Object.keys(env).some((name) => /^(?:https?|all)_proxy$/i.test(name));
  return gateway?.sharesNetwork && hasProxy ? undefined : gateway;
}

/** The plan of a replay without a key: the gateway leads the agent as it would with a key of the recorded provider. */
function planReplay(
  { harness, sandbox, spec, cassette }: LeadSources,
  { whole, names }: { whole: SessionSpec; names: readonly string[] },
): LeadPlan {
  const access = accessOf(sandbox, spec);
  for (const variable of names) {
    const lead = harness.lead?.(whole, variable);
    if (access === undefined || lead === undefined || lead === "plan_login") continue;
    const isRecorded = cassette?.provider === undefined || cassette.provider === lead.route.provider;
    if (isRecorded) return { place: "outside", led: { access, lead, variable, key: undefined } };
  }
  return { place: "inside" };
}

/** The key that the CLI would use: the session's own precede the server's. */
function findKey(
  names: readonly string[],
  ownNames: readonly string[],
  { spec: { env = {} }, credentials }: Pick<LeadSources, "spec" | "credentials">,
): { variable: string; key: string; source: "session" | "server" } | undefined {
  for (const variable of [...names, ...ownNames]) {
    const key = env[variable] ?? credentials.secrets[variable];
    if (key !== undefined && key !== "") return { variable, key, source: "session" };
  }
  for (const variable of names) {
    const key = credentials.env[variable];
    if (key !== undefined && key !== "") return { variable, key, source: "server" };
  }
  return undefined;
}

/** The session's cassette. */
export function findCassette(
  { cassettes }: Pick<SessionDeps, "cassettes">,
  { spec, tenant }: Pick<SessionRow, "spec" | "tenant">,
): FoundCassette | undefined {
  if (spec.cassette === undefined) return undefined;
  const launch = toCassetteLaunch(spec.cassette, { root: cassettes, tenant });
  return { launch, provider: recordedProvider(launch) };
}

/** The fields of `process.started` about the agent's credential. */
export async function credentialOf(
  deps: Pick<SessionDeps, "harness" | "lend" | "cassettes" | "kept">,
  row: Pick<SessionRow, "id" | "spec" | "tenant">,
  sandbox: Sandbox,
): Promise<Pick<EventData<"process.started">, "credential" | "gateway">> {
  const { id, spec } = row;
  const harness = deps.harness(spec);
  const placeholders = Object.keys(toPlaceholders(await deps.lend(id), sandbox));
  const credentials = await readCredentials(harness, spec, { kept: deps.kept, lent: placeholders });
  const cassette = findCassette(deps, row);
  const { place, led } = planLead({ harness, spec, credentials, placeholders, sandbox, cassette });
  return { ...(place === "none" ? {} : { credential: place }), ...(led ? { gateway: true } : {}) };
}
