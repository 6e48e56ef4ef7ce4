import { join } from "node:path";
import type { EventDraft, SessionSpec } from "../../contract/index.ts";
import type { SessionRow } from "../../log/port.ts";
import type { Harness } from "../../harness/port.ts";
import type { Sandbox } from "../../sandbox/port.ts";
import { createSpool, openSpool } from "../../spool/index.ts";
import { TOKEN_VARIABLE, type ToolRun } from "../../tools/index.ts";
import { messageOf } from "../failure.ts";
import type { Logger, SessionDeps } from "../deps.ts";
import type { SessionFold } from "../fold/session-fold.ts";
import { type Credentials, isKey, readCredentials } from "../secrets/credentials.ts";
import { collectInside, prepareLogin } from "../secrets/login.ts";
import { tellUnusable, toLentValues, toPlaceholders } from "../secrets/lending.ts";
import { HarnessProcess } from "./process.ts";
import { offeredTools } from "../actions/tool-requests.ts";
import { createRedactor, type Redactor, secretsOf } from "../secrets/redact.ts";
import { withToolAccess, withToolServer } from "../actions/tool-server.ts";

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
  const surroundings = { workspace, home, isolated, ...resume, ...forkOf(row, ordinal) };
  const loan = await deps.lend(row.id);
  const placeholders = toPlaceholders(loan, sandbox);
  const lent = Object.keys(placeholders);
  const { env, secrets, login, addresses, values } = await readCredentials(harness, row.spec, { lent });
  const secret = new Map(values);
  const prepared = login && (await prepareLogin(login, { harness, sandbox, values: secret }));
  const hasTools = offeredTools(row.spec, harness).length > 0;
  const access = hasTools ? await deps.tools.open(runOf(row, ordinal)) : undefined;
  const spec = withToolServer(withAddresses(await deps.equip(row.id, row.spec), addresses), harness);
  const keys = Object.entries(placeholders).filter(([name]) => isKey(harness, name));
  const launch = withToolAccess(
    harness.launch(spec, {
      ...surroundings,
      env: { ...Object.fromEntries(keys), ...env },
      ...(prepared === undefined ? {} : { login: prepared.content }),
    }),
    access,
  );
  // Only the first process of a session reports it.
  if (ordinal === 1)
    tell(tellUnusable(loan, sandbox, { network: row.spec.network, hosts: launch.hosts ?? [] }));
  const spool = await createSpool(spoolFolder(deps, row.id, ordinal));
  const redactor = redactorOf(
    deps,
    spec,
    new Map([...withToken(secret, access?.token), ...toLentValues(loan)]),
  );
  const whole = {
    ...launch,
    ...(loan === undefined ? {} : { lending: loan.lending }),
    env: { ...row.spec.env, ...placeholders, ...secrets, ...launch.env },
    files: [...(prepared?.files ?? []), ...(launch.files ?? [])],
  };
  const started = {
    ordinal,
    harness: harness.id,
    launch: whole,
    workspace,
    home,
    spoolFolder: spool.folder,
    redact: redactor.text,
  };
  const witness = deps.recorder?.begin(started);
  deps.onStart();
  try {
    await spool.begin((wrapped) => sandbox.spawn({ launch: whole, ...wrapped }));
  } catch (error) {
    // The process may run although its start failed.
    const pid = await spool.pid();
    if (pid !== undefined) await sandbox.signal(pid, "SIGKILL").catch(() => {});
    await spool.remove();
    throw error;
  }
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
  const spool = await openSpool(spoolFolder(deps, row.id, fold.processes));
  const wasStarted = spool && ((await spool.pid()) !== undefined || (await spool.exit()) !== undefined);
  if (!spool || !wasStarted) {
    // A start that was under way must not go on.
    await sandbox.killAll();
    await spool?.remove();
    return undefined;
  }
  const harness = deps.harness(row.spec);
  const { workspace, home } = sandbox.paths;
  const resume = fold.resumed === undefined ? {} : { resume: fold.resumed };
  // Fails where a secret is missing: it could not be redacted from the output.
  const values = await readSecrets(harness, row.spec, sandbox);
  const hasTools = offeredTools(row.spec, harness).length > 0;
  const token = hasTools ? await deps.tools.reopen(runOf(row, fold.processes)) : undefined;
  const logger = loggerOf(deps, row);
  const without = (message: string) => (error: unknown) =>
    logger({ level: "warn", message, error: messageOf(error) });
  const onUnlent = without("the lent secrets of a running session could not be read, and are not redacted");
  const lent = toLentValues((await deps.lend(row.id).catch(onUnlent)) ?? undefined);
  const onUnequipped = without("a running session goes on with its plain spec");
  const spec = withToolServer((await deps.equip(row.id, row.spec).catch(onUnequipped)) ?? row.spec, harness);
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
  sandbox: Sandbox,
): Promise<Map<string, string>> {
  const { login, values } = await readCredentials(harness, spec);
  const secret = new Map(values);
  if (login !== undefined) await collectInside(login, sandbox, secret);
  return secret;
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

function spoolFolder(deps: SessionDeps, session: string, ordinal: number): string {
  return join(deps.spoolRoot, session, String(ordinal));
}

/** A session that was deleted and created again has another key. */
function sessionKey(row: SessionRow): string {
  return `${row.id}@${row.createdAt}`;
}

function redactorOf(deps: SessionDeps, spec: SessionSpec, values: ReadonlyMap<string, string>): Redactor {
  return createRedactor(new Map([...deps.secrets, ...secretsOf(spec), ...values]));
}
