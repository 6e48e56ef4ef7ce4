import type { Catalog } from "../../catalog/port.ts";
import { defined } from "../../contract/own-keys.ts";
import { isOpenSandbox, type SessionInfo, type SessionSpec, SluiceError } from "../../contract/index.ts";
import { sessionExists } from "../../log/refusals.ts";
import { listPrivateHosts } from "../../sessions/private-hosts.ts";
import { matchesFilter } from "../../sessions/lifecycle/session-list.ts";
import type { CheckpointPage, CreateOptions, Engine, SessionPage } from "../../sessions/port.ts";
import { type Access, isWorkspace, permits } from "./access.ts";
import { guardLog } from "./guarded-log.ts";
import { SessionGuard } from "./session-guard.ts";

/** How many checkpoints of others a list passes over. */
const MAX_PASSED = 5_000;

/**
 * The engine for routes of one request. A session of another tenant, or another one than the token's, does not exist for
 * it. Every method of the engine is named here, so that a new one does not compile without its decision.
 */
export function guardEngine(engine: Engine, catalog: Catalog | undefined, access: Access): Engine {
  if (access.isOperator) return engine;
  const guard = new SessionGuard(engine.log, catalog, access);
  const own = async <T>(session: string, work: () => Promise<T>): Promise<T> => {
    await guard.permit(session);
    return work();
  };
  // The author of inputs, answers and interrupts, by the id of the token (docs/decisions/0065).
  const author = access.token === undefined ? {} : { by: access.token };
  /** A shelf may hold checkpoints of several tenants. */
  const findOwnCheckpoint: Engine["findCheckpoint"] = async (session, checkpoint) => {
    const found = await engine.findCheckpoint(session, checkpoint);
    const row = found?.sessionId === undefined ? undefined : await engine.log.find(found.sessionId);
    return row && (await guard.isOwn(row)) ? found : undefined;
  };
  const assertOwnCheckpoint = async (session: string, checkpoint: string): Promise<void> => {
    if (checkpoint === "latest" || (await findOwnCheckpoint(session, checkpoint))) return;
    throw new SluiceError("checkpoint_not_found", `there is no checkpoint ${checkpoint}; list them first`);
  };

  return {
    log: guardLog(engine.log, guard),
    defaultSandbox: () => engine.defaultSandbox(),
    agents: () => engine.agents(),
    skillsFolder: (agent) => engine.skillsFolder(agent),
    stats: () => engine.stats(),
    async usage(filter) {
      const rows = await engine.usage({
        ...filter,
        ...guard.listed,
        ...(access.session === undefined ? {} : { session: access.session }),
      });
      const own = await Promise.all(
        rows.map(({ session: id, tenant }) => guard.isOwn({ id, ...defined({ tenant }) })),
      );
      return rows.filter((row, at) => own[at] && (filter.session ?? row.session) === row.session);
    },
    drain: refuse,
    close: refuse,

    async create(
      id: string | undefined,
      spec: SessionSpec,
      options: CreateOptions = {},
    ): Promise<SessionInfo> {
      if (access.session !== undefined && id !== access.session)
        throw new SluiceError(
          "permission_denied",
          `This token reaches the session ${access.session} alone. Use another token to create sessions.`,
        );
      const row = id === undefined ? undefined : await engine.log.find(id);
      if (row && !(await guard.isOwn(row))) throw sessionExists(row.id);
      if (isWorkspace(access.tenant)) {
        assertWorkspaceSpec({ ...spec, sandbox: spec.sandbox ?? (await engine.defaultSandbox()) });
      }
      const { fork } = spec;
      if (fork) await guard.permit(fork.session);
      if (fork?.checkpoint !== undefined) await assertOwnCheckpoint(fork.session, fork.checkpoint);
      return engine.create(id, spec, { ...options, tenant: access.tenant });
    },
    async list({ limit, cursor, ...filter }: SessionPage) {
      if (access.session === undefined)
        return engine.list({ limit, cursor, ...filter, ...guard.listed, isOwn: (row) => guard.isOwn(row) });
      const row = await engine.log.find(access.session);
      if (!row || cursor !== undefined || !(await guard.isOwn(row))) return { sessions: [] };
      const info = await engine.info(row.id);
      return { sessions: matchesFilter(info, filter) ? [info] : [] };
    },
    info: (id) => own(id, () => engine.info(id)),
    spec: (id) => own(id, () => engine.spec(id)),
    inputs: (id) => own(id, () => engine.inputs(id)),
    changeQueue: (id, change, options) =>
      own(id, () => engine.changeQueue(id, change, { ...options, ...author })),
    outline: (id, page) => own(id, () => engine.outline(id, page)),
    at: (id, sequence) => own(id, () => engine.at(id, sequence)),
    async entry(id: string) {
      const found = await engine.entry(id);
      return found && (await guard.isOwn(found.row)) ? found : undefined;
    },
    inbox: (id) => own(id, () => engine.inbox(id)),
    update: (id, change, options) =>
      own(id, () => {
        if (isWorkspace(access.tenant)) assertWorkspaceSpec(change.settings ?? {});
        return engine.update(id, change, options);
      }),
    report: (id, error) => own(id, () => engine.report(id, error)),
    remove: (id) => own(id, () => engine.remove(id)),
    send: (id, input) => own(id, () => engine.send(id, { ...input, ...author })),
    submit: (id, submissions, options) =>
      own(id, () => engine.submit(id, submissions, { ...options, ...author })),
    interrupt: (id, options) => own(id, () => engine.interrupt(id, { ...options, ...author })),
    terminate: (id, options) => own(id, () => engine.terminate(id, options)),
    exec: (id, command, options) => own(id, () => engine.exec(id, command, options)),
    resolvePermission: (id, request, reply, options) =>
      own(id, () => engine.resolvePermission(id, request, reply, { ...options, ...author })),
    resolveQuestion: (id, request, reply, options) =>
      own(id, () => engine.resolveQuestion(id, request, reply, { ...options, ...author })),
    resolveTool: (id, request, reply, options) =>
      own(id, () => engine.resolveTool(id, request, reply, { ...options, ...author })),
    pause: (id) => own(id, () => engine.pause(id)),
    resume: (id) => own(id, () => engine.resume(id)),
    host: (id, port) => own(id, () => engine.host(id, port)),
    checkpoint: (id, options) => own(id, () => engine.checkpoint(id, options)),
    checkpoints: (id, page) => own(id, () => engine.checkpoints(id, page)),
    findCheckpoint: (id, checkpoint) => own(id, () => findOwnCheckpoint(id, checkpoint)),
    checkpointContents: (id, checkpoint) =>
      own(id, async () => {
        await assertOwnCheckpoint(id, checkpoint);
        return engine.checkpointContents(id, checkpoint);
      }),
    async shelved(shelf: string | undefined, { limit = 100, before }: CheckpointPage = {}) {
      const found: Awaited<ReturnType<Engine["shelved"]>> = [];
      let last = before;
      for (let passed = 0; passed < MAX_PASSED; passed += 500) {
        const page = await engine.shelved(shelf, { limit: 500, before: last });
        for (const info of page) {
          const row = info.sessionId === undefined ? undefined : await engine.log.find(info.sessionId);
          if (row && (await guard.isOwn(row))) found.push(info);
          if (found.length === limit) return found;
        }
        if (page.length < 500) break;
        last = page.at(-1)?.id;
      }
      return found;
    },
    restore: (id, checkpoint, options) =>
      own(id, async () => {
        await assertOwnCheckpoint(id, checkpoint);
        return engine.restore(id, checkpoint, options);
      }),
    move: (id, sandbox, options) =>
      own(id, () => {
        if (isWorkspace(access.tenant)) assertWorkspaceSpec({ sandbox });
        return engine.move(id, sandbox, options);
      }),
    // A reader does not cause the creation of a sandbox.
    files: (id, options) =>
      own(id, () => engine.files(id, permits(access, "control") ? options : { onlyExisting: true })),
  };
}

function refuse(): never {
  throw new TypeError("A request does not end the engine.");
}

/**
 * Refuses settings by which a session of a workspace would reach the server's machine: its folders, variables, files,
 * images and network, another share of it, or a sandbox without isolation (docs/decisions/0064).
 */
function assertWorkspaceSpec(spec: Partial<SessionSpec>): void {
  const { directory, command, secrets = {}, sandbox, image, limits, cassette } = spec;
  if (directory !== undefined) throw denied("directory: a workspace has no folders of the server.");
  // The file would be put into the sandbox, and the refusal would tell whether it exists.
  if (command?.[0]?.includes("/"))
    throw denied("command: a workspace names a program without its folder, and the server finds it.");
  if (cassette?.file.includes("/"))
    throw denied("cassette.file: a workspace names its cassettes without a folder.");
  if (image !== undefined) throw denied("image: a workspace uses the server's own. Leave it out.");
  if (limits !== undefined) throw denied("limits: a workspace has those of the server. Leave them out.");
  if (isOpenSandbox(sandbox)) throw denied("sandbox: a workspace needs an isolated one. Leave it out.");
  const foreign = Object.entries(secrets).find(([, reference]) => !reference.startsWith("value:"));
  if (foreign) throw denied(`secrets.${foreign[0]}: a workspace gives its secrets as "value:…".`);
  const [host] = listPrivateHosts(spec);
  if (host !== undefined)
    throw denied(`${host} is this machine or its network, which a workspace cannot reach.`);
}

function denied(detail: string): SluiceError {
  return new SluiceError("permission_denied", detail);
}
