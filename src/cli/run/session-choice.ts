import { createId, type SessionInfo } from "../../contract/index.ts";
import { readConfig } from "../config.ts";
import { createEngineControls, createServerControls } from "../source/controls.ts";
import { dataDirOf } from "../source/data-folder.ts";
import { openEngine } from "../source/engine.ts";
import { namedServer, type Server, type WhereOptions } from "../source/locate.ts";
import type { Controls } from "../source/port.ts";
import { badUsage, CliFailure, EXIT } from "../terminal/failure.ts";
import type { Screen } from "../terminal/screen.ts";
import { type AgentOptions, toSpec } from "./agent-options.ts";
import { chooseAgent } from "./default-agent.ts";
import { createErrorPrinter } from "./turn-run.ts";

/** The count of newest sessions among which the last one is looked for. */
const RECENT = 200;

export interface ChoiceOptions extends AgentOptions, WhereOptions {
  readonly session?: string | undefined;
  /** Continue the last session. */
  readonly continue?: boolean;
}

/** The sessions of the named server, else of an engine of this process. */
export async function openControls(options: WhereOptions, screen: Screen): Promise<Controls> {
  return toControls(await namedServer(options), options, screen);
}

export async function toControls(
  server: Server | undefined,
  options: WhereOptions,
  screen: Screen,
): Promise<Controls> {
  if (server) return createServerControls(server.client, server.url);
  const folder = dataDirOf(options.data);
  return createEngineControls(
    await openEngine(folder, () => ({ logger: createErrorPrinter(screen) })),
    folder,
  );
}

/** The session of `--session`, the last one for `-c`, else a new one. Returns its id. */
export async function ensureSession(
  controls: Controls,
  options: ChoiceOptions,
  { screen, command = [] }: { screen: Screen; command?: readonly string[] },
): Promise<string> {
  if (options.continue && options.session !== undefined)
    throw badUsage("--continue means the last session, and --session names one. Leave one of them out.");
  const known = await findKnown(controls, options);
  if (known) {
    refuseOtherAgent(known, options.agent);
    refuseCassette(known, options);
    return known.sessionId;
  }
  if (options.continue) screen.note("There is no earlier session to continue, so a new one begins.");
  const id = options.session ?? createId("session");
  const isHere = !controls.isServer || isThisMachine(controls.where);
  const settings = { ...(await readDefaults()), ...options };
  const agent = settings.agent ?? (await agentOf(controls, settings, { screen, isHere }));
  await controls.create(id, toSpec({ ...settings, ...(agent && { agent }) }, command, { isHere }));
  return id;
}

async function findKnown(controls: Controls, options: ChoiceOptions): Promise<SessionInfo | undefined> {
  if (options.session !== undefined) return findSession(controls, options.session);
  return options.continue ? findLast(controls, options) : undefined;
}

function refuseOtherAgent({ sessionId, agent }: SessionInfo, wanted: string | undefined): void {
  if (wanted === undefined || wanted === agent) return;
  throw new CliFailure(
    `Session "${sessionId}" belongs to the agent "${agent}", not to "${wanted}". ` +
      "Leave --agent out to continue it, or choose another --session.",
    EXIT.usage,
  );
}

/** The cassette of a session is chosen once. */
function refuseCassette({ sessionId }: SessionInfo, { record, replay }: AgentOptions): void {
  if (record === undefined && replay === undefined) return;
  throw new CliFailure(
    `Session "${sessionId}" exists already, and --record and --replay are for new ones. It goes on with the cassette of its creation, if it has one.`,
    EXIT.usage,
  );
}

/** The defaults of the config file for a new session. */
async function readDefaults(): Promise<AgentOptions> {
  const { server: _server, token: _token, ...defaults } = await readConfig();
  return Object.fromEntries(Object.entries(defaults).filter(([, value]) => value !== undefined));
}

/**
 * The agent of a new session. A fork keeps its original's agent. For a server on another machine, this machine's agents
 * and keys do not count.
 */
async function agentOf(
  controls: Controls,
  { fork }: AgentOptions,
  { screen, isHere }: { screen: Screen; isHere: boolean },
): Promise<string | undefined> {
  if (fork !== undefined) return (await controls.info(fork)).agent;
  return isHere ? chooseAgent(screen) : undefined;
}

async function findSession(controls: Controls, id: string): Promise<SessionInfo | undefined> {
  return controls.info(id).catch((error: unknown) => {
    if ((error as { code?: unknown }).code === "session_not_found") return undefined;
    throw error;
  });
}

/** The session with the latest event, of those that can be continued. */
export async function findLast(
  controls: Pick<Controls, "sessions">,
  { agent }: { agent?: string },
): Promise<SessionInfo | undefined> {
  let last: SessionInfo | undefined;
  let count = 0;
  for await (const session of controls.sessions({ agent })) {
    if (!session.ended && session.updatedAt > (last?.updatedAt ?? 0)) last = session;
    count += 1;
    if (count === RECENT) break;
  }
  return last;
}

export function isThisMachine(url: string): boolean {
  const { hostname } = new URL(url);
  return hostname === "localhost" || hostname === "[::1]" || hostname.startsWith("127.");
}
