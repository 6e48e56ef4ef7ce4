import { defined } from "../../contract/own-keys.ts";
import type { EventDraft, SessionSpec } from "../../contract/index.ts";
import type { SessionRow } from "../../log/port.ts";
import type { Harness } from "../../harness/port.ts";
import type { Sandbox } from "../../sandbox/port.ts";
import { TOKEN_VARIABLE, type ToolRun } from "../../tools/index.ts";
import { messageOf } from "../failure.ts";
import type { Logger, SessionDeps } from "../deps.ts";
import type { SessionFold } from "../fold/session-fold.ts";
import { type Credentials, isKey, readCredentials } from "../secrets/credentials.ts";
import { collectInside, prepareLogin } from "../secrets/login.ts";
import { tellUnusable, toLentValues, toPlaceholders } from "../secrets/lending.ts";
import { notLed } from "../secrets/cassette.ts";
import { findCassette, planLead } from "../secrets/lead-plan.ts";
import { openLeading, refuseUnkeptRules, reopenDesk, toTaped } from "../secrets/led-start.ts";
import { reachRelay, reachTools } from "../sandbox/reach.ts";
import { HarnessProcess } from "./process.ts";
import { offeredTools } from "../actions/tool-requests.ts";
import { createRedactor, type Redact, type Redactor, secretsOf, withhold } from "../secrets/redact.ts";
import { withToolAccess, withToolServer } from "../actions/tool-server.ts";

/** The names of all agents' programs, for sandboxes that have their own. */
const KNOWN_PROGRAMS = ["claude", "codex", "opencode", "gemini", "grok", "amp"];

export interface StartOptions {
  readonly ordinal: number;
  readonly resumed: string | undefined;
  /** Takes events about the start, for the log. */
  readonly tell: (events: readonly EventDraft[]) => void;
}

/** Starts the harness with a new spool. From here on the process does not depend on this server. */
export async function launchProcess(
  deps: SessionDeps,
  row: SessionRow,
  sandbox: Sandbox,
  { ordinal, resumed, tell }: StartOptions,
): Promise<HarnessProcess> {
  const harness = deps.harness(row.spec);
  const { workspace, home } = sandbox.paths;
  const resume = resumed === undefined ? {} : { resume: resumed };
  const { isolated } = sandbox;
  const programs = await sandbox.programs?.([...KNOWN_PROGRAMS, ...(row.spec.command ?? []).slice(0, 1)]);
  const surroundings = { workspace, home, isolated, ...resume, ...forkOf(row, ordinal) };
  const loan = await deps.lend(row.id);
  const placeholders = toPlaceholders(loan, sandbox);
  const lent = Object.keys(placeholders);
  const credentials = await readCredentials(harness, row.spec, { kept: deps.kept, lent });
  const { env, secrets, addresses, values } = credentials;
  const cassette = findCassette(deps, row);
  const sources = { harness, spec: row.spec, credentials, placeholders: lent, sandbox, cassette };
  const { place, led } = planLead(sources);
  if (cassette !== undefined && (led === undefined || led.lead.isBinary))
    throw notLed(led === undefined ? place : "binary");
  refuseUnkeptRules(row.spec, led !== undefined);
  // With a login the CLI would not ask the cassette.
  const login = led !== undefined && led.key === undefined ? undefined : credentials.login;
  const secret = new Map(values);
  const known = new Map([...deps.secrets, ...secretsOf(row.spec), ...secret, ...toLentValues(loan)]);
  const taped = cassette && toTaped(cassette, known, sandbox);
  const leading = led && (await openLeading(deps, row, led, taped));
  if (leading !== undefined) secret.set("the model gateway's token", leading.token);
  const prepared = login && (await prepareLogin(login, { harness, sandbox, values: secret }));
  const hasTools = offeredTools(row.spec, harness).length > 0;
  const access = hasTools ? await reachTools(sandbox, await deps.tools.open(runOf(row, ordinal))) : undefined;
  const own = await reachRelay(sandbox, row.spec, await deps.equip(row.id, row.spec));
  const equipped = withAddresses(own, addresses);
  const spec = withToolServer(equipped, harness, programs);
  const ledSpec = leading === undefined ? spec : leading.spec(spec);
  const keys = Object.entries(placeholders).filter(([name]) => isKey(harness, name));
  const context = {
    ...surroundings,
    ...defined({ programs }),
    env: { ...Object.fromEntries(keys), ...(leading?.keys(env) ?? env) },
    ...(leading === undefined ? {} : { modelUrl: leading.url }),
    ...(prepared === undefined ? {} : { login: prepared.content }),
  };
  const launch = withToolAccess(harness.launch(ledSpec, context), access, programs);
  // Only the first process of a session reports the secrets that cannot be used.
  if (ordinal === 1)
    tell(tellUnusable(loan, sandbox, { network: row.spec.network, hosts: launch.hosts ?? [] }));
  const redacted = new Map([...withToken(secret, access?.token), ...toLentValues(loan)]);
  const redactor = redactorOf(deps, spec, redacted);
  const whole = {
    ...launch,
    ...(loan === undefined ? {} : { lending: loan.lending }),
    ...(leading === undefined ? {} : { gateway: leading.gateway, hosts: leading.hosts(launch.hosts) }),
    env: {
      ...(leading?.values(row.spec.env) ?? row.spec.env),
      ...placeholders,
      ...(leading?.values(secrets) ?? secrets),
      ...launch.env,
    },
    files: [...(prepared?.files ?? []), ...(launch.files ?? [])],
  };
  deps.onStart();
  const spool = await sandbox.processes.start({ name: String(ordinal), launch: whole, streams: "private" });
  const witness = deps.recorder?.begin({
    ordinal,
    harness: harness.id,
    launch: whole,
    workspace,
    home,
    spool,
    redact: redactor.text,
  });
  return new HarnessProcess({
    sessionKey: sessionKey(row),
    ordinal,
    spool,
    sandbox,
    harness,
    context: { spec, ...surroundings },
    redactor,
    witness,
    logger: loggerOf(deps, row),
  });
}

/** The process of an earlier server, running or ended; undefined where it cannot be found. */
export async function attachProcess(
  deps: SessionDeps,
  row: SessionRow,
  fold: SessionFold,
  sandbox: Sandbox,
): Promise<HarnessProcess | undefined> {
  const spool = await sandbox.processes.open(String(fold.processes));
  const wasStarted = spool && ((await spool.pid()) !== undefined || (await spool.exit()) !== undefined);
  if (!spool || !wasStarted) {
    // A start that was under way must not go on.
    await sandbox.killAll();
    await spool?.remove();
    return undefined;
  }
  const harness = deps.harness(row.spec);
  const { workspace, home } = sandbox.paths;
  if (fold.led === true) await reopenDesk(deps, row, sandbox);
  const resume = fold.resumed === undefined ? {} : { resume: fold.resumed };
  // Fails where a secret is missing: it could not be redacted from the output.
  const values = await readSecrets(harness, row.spec, { deps, sandbox });
  const hasTools = offeredTools(row.spec, harness).length > 0;
  const token = hasTools ? await deps.tools.reopen(runOf(row, fold.processes)) : undefined;
  // The tool server of this engine may have another port than that of the earlier one.
  if (hasTools && sandbox.reach) await reachTools(sandbox, await deps.tools.open(runOf(row, fold.processes)));
  const logger = loggerOf(deps, row);
  const without = (message: string) => (error: unknown) =>
    logger({ level: "warn", message, error: messageOf(error) });
  const onUnlent = without("the lent secrets of a running session could not be read, and are not redacted");
  const lent = toLentValues((await deps.lend(row.id).catch(onUnlent)) ?? undefined);
  const onUnequipped = without("a running session goes on with its plain spec");
  const equipped = (await deps.equip(row.id, row.spec).catch(onUnequipped)) ?? row.spec;
  const spec = withToolServer(await reachRelay(sandbox, row.spec, equipped), harness);
  const process = new HarnessProcess({
    sessionKey: sessionKey(row),
    ordinal: fold.processes,
    spool,
    sandbox,
    harness,
    context: {
      spec,
      workspace,
      home,
      isolated: sandbox.isolated,
      ...resume,
      ...forkOf(row, fold.processes),
    },
    redactor: redactorOf(deps, spec, new Map([...withToken(values, token), ...lent])),
    logger,
  });
  await process.reattach(row.spool);
  return process;
}

function loggerOf({ logger }: SessionDeps, { id: session }: SessionRow): Logger {
  return (line) => logger({ ...line, session });
}

/** The secrets of the session. The login of its start may now be in the agent's home only. */
async function readSecrets(
  harness: Harness,
  spec: SessionSpec,
  { deps, sandbox }: { deps: Pick<SessionDeps, "kept">; sandbox: Sandbox },
): Promise<Map<string, string>> {
  const { login, values } = await readCredentials(harness, spec, { kept: deps.kept });
  const secret = new Map(values);
  if (login !== undefined) await collectInside(login, sandbox, secret);
  return secret;
}

/** Removes the session's secrets, without its process. Where they cannot be read, the text is withheld. */
export async function readRedact(deps: SessionDeps, spec: SessionSpec): Promise<Redact> {
  try {
    const { values } = await readCredentials(deps.harness(spec), spec, { kept: deps.kept });
    return redactorOf(deps, spec, values).text;
  } catch {
    return withhold;
  }
}

function withAddresses(spec: SessionSpec, addresses: Credentials["addresses"]): SessionSpec {
  return Object.keys(addresses).length === 0 ? spec : { ...spec, env: { ...addresses, ...spec.env } };
}

/** The first process of a fork gets a native session of its own. */
function forkOf({ spec }: SessionRow, ordinal: number): { fork?: true } {
  return spec.fork !== undefined && ordinal === 1 ? { fork: true } : {};
}

function runOf({ id: session, createdAt }: SessionRow, process: number): ToolRun {
  return { session, createdAt, process };
}

function withToken(
  values: ReadonlyMap<string, string>,
  token: string | undefined,
): ReadonlyMap<string, string> {
  return token === undefined ? values : new Map([...values, [TOKEN_VARIABLE, token]]);
}

/** A session that was deleted and created again has another key. */
function sessionKey(row: SessionRow): string {
  return `${row.id}@${row.createdAt}`;
}

function redactorOf(deps: SessionDeps, spec: SessionSpec, values: ReadonlyMap<string, string>): Redactor {
  return createRedactor(new Map([...deps.secrets, ...secretsOf(spec), ...values]));
}
