import { defined } from "../../contract/own-keys.ts";
import { type GatewayLaunch, type SessionSpec, SluiceError } from "../../contract/index.ts";
import type { CassetteLaunch } from "../../contract/process.ts";
import { type DeskAnswer, toAgentToken } from "../../gateway/desk.ts";
import type { SessionRow } from "../../log/port.ts";
import type { Sandbox } from "../../sandbox/port.ts";
import type { SessionDeps } from "../deps.ts";
import { toFolders, toHidden } from "./cassette.ts";
import { readCredentials } from "./credentials.ts";
import { findCassette, type FoundCassette, type LeadPlan, planLead } from "./lead-plan.ts";
import { secretsOf } from "./redact.ts";

/** A start of a led agent: the session's token in place of the key, everywhere the agent would find it. */
export interface Leading {
  readonly token: string;
  /** The address of the model, as the agent sees it. */
  readonly url: string;
  readonly gateway: GatewayLaunch;
  /** The spec with the gateway's address. */
  spec(spec: SessionSpec): SessionSpec;
  /** Variables with the token in place of the key. */
  values<T extends Readonly<Record<string, string>> | undefined>(variables: T): T;
  /** As `values`. For a replay without a key, also adds the token as the agent's key. */
  keys(variables: Readonly<Record<string, string>>): Readonly<Record<string, string>>;
  /** The hosts that the agent still needs: its gateway, and no model provider's. */
  hosts(hosts: readonly string[] | undefined): string[];
}

/** Puts the key on the desk, and plans the start of an agent without it. */
export async function openLeading(
  deps: Pick<SessionDeps, "desk" | "tools">,
  { id: session, createdAt, spec: settings }: Pick<SessionRow, "id" | "createdAt" | "spec">,
  { lead, access, variable, key }: NonNullable<LeadPlan["led"]>,
  cassette: Taped | undefined,
): Promise<Leading> {
  // The address is the same for all processes of the session, so that their gateway stays.
  const run = { session, createdAt, process: 0 };
  const desk = await deps.tools.open(run);
  deps.desk.put(run, toDeskAnswer({ lead, key }, cassette, settings));
  const token = toAgentToken(desk.token);
  const base = await access.url();
  const { id, tokenInPath } = lead.route;
  const url = `${base}/${id}${tokenInPath ? `/${token}` : ""}`;
  const own = new URL(base).host;
  const hidden = new Set(lead.companions);
  const values = <T extends Readonly<Record<string, string>> | undefined>(variables: T): T => {
    if (variables?.[variable] === undefined && hidden.size === 0) return variables;
    const kept = Object.entries(variables ?? {}).filter(([name]) => !hidden.has(name));
    return Object.fromEntries(kept.map(([name, value]) => [name, name === variable ? token : value])) as T;
  };
  return {
    token,
    url,
    gateway: {
      routes: [lead.route],
      desk: { url: `${desk.url}/desk`, token: desk.token },
      ...(cassette === undefined ? {} : { cassette: cassette.launch }),
    },
    spec: (spec) => ({ ...spec, env: { ...values(spec.env), ...lead.variables?.(url) } }),
    values,
    keys: (variables) => (key === undefined ? { ...variables, [variable]: token } : values(variables)),
    hosts: (hosts = []) => [...hosts.filter((host) => host !== own), access.host],
  };
}

/** A cassette, the values that it must not contain, and the names of the agent's folders in it. */
export interface Taped extends Required<Pick<DeskAnswer, "hidden" | "folders">> {
  readonly launch: CassetteLaunch;
}

export function toTaped(
  { launch }: FoundCassette,
  secrets: ReadonlyMap<string, string>,
  { paths }: Pick<Sandbox, "paths">,
): Taped {
  return { launch, hidden: toHidden(secrets), folders: toFolders(paths) };
}

/** A replay needs no key, so it gets none. */
function toDeskAnswer(
  { lead, key }: Pick<NonNullable<LeadPlan["led"]>, "lead" | "key">,
  cassette: Taped | undefined,
  { models, fallback, policy, perMinute, retries }: SessionSpec,
): DeskAnswer {
  const keys = key === undefined || cassette?.launch.mode === "replay" ? {} : { [lead.route.id]: key };
  const rules = defined({ models, fallback, policy, perMinute, untilReset: retries?.untilReset });
  return {
    keys,
    ...(Object.keys(rules).length === 0 ? {} : { rules }),
    ...(cassette === undefined ? {} : { hidden: cassette.hidden, folders: cassette.folders }),
  };
}

/** Puts the key of a running agent on the desk again. The gateway goes on with its own copy until then. */
export async function reopenDesk(
  deps: Pick<SessionDeps, "desk" | "tools" | "harness" | "lend" | "cassettes" | "secrets" | "kept">,
  row: Pick<SessionRow, "id" | "createdAt" | "spec" | "tenant">,
  sandbox: Sandbox,
): Promise<void> {
  const harness = deps.harness(row.spec);
  const run = { session: row.id, createdAt: row.createdAt, process: 0 };
  const credentials = await readCredentials(harness, row.spec, { kept: deps.kept });
  const cassette = findCassette(deps, row);
  const { led } = planLead({ harness, spec: row.spec, credentials, placeholders: [], sandbox, cassette });
  const secrets = new Map([...deps.secrets, ...secretsOf(row.spec), ...credentials.values]);
  const taped = cassette && toTaped(cassette, secrets, sandbox);
  if (led !== undefined) deps.desk.put(run, toDeskAnswer(led, taped, row.spec));
  await deps.tools.reopen(run);
}

/** Refuses to start an agent whose requests would not keep the session's rules. */
export function refuseUnkeptRules(spec: SessionSpec, isLed: boolean): void {
  const { models, fallback, policy, perMinute } = spec;
  const [name] = Object.keys(defined({ policy, models, fallback, perMinute }));
  if (isLed || name === undefined) return;
  throw new SluiceError(
    "invalid_request",
    `The session's "${name}" cannot be kept, because its agent is not led through the model gateway. Leave it out, or use a sandbox on this machine and a key.`,
  );
}
