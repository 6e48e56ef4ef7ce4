import type { Context, Hono } from "hono";
import type { Catalog } from "../../catalog/port.ts";
import { isOpenSandbox, SluiceError } from "../../contract/index.ts";
import { toAgentId } from "../../dialects/ag-ui/projection.ts";
import type { AgentInfo, Engine } from "../../sessions/port.ts";
import type { AppEnv, Logger } from "../context.ts";
import { KeyedLock } from "../keyed-lock.ts";
import { createMount } from "../operation.ts";
import type { Services } from "../services.ts";
import { hydrate } from "./history.ts";
import { agUiOperations } from "./operations.ts";
import { readRun, readThread } from "./read.ts";
import { postRun } from "./run.ts";
import { namesNeither, stopNamedRun } from "./stop.ts";
import { type AgUiServices, SessionIndex } from "./thread.ts";
import { speaksProto, toView } from "./view.ts";

/** Mounts the AG-UI dialect: the URL of a client is `/ag-ui/{agent}`. */
export function mountAgUi(
  app: Hono<AppEnv>,
  services: Services,
  { catalog, logger }: { catalog: Catalog | undefined; logger: Logger },
): void {
  const runs = new SessionIndex("ag-ui.run", catalog);
  const aliases = new SessionIndex("ag-ui.thread", catalog);
  const threads = new KeyedLock();
  const mount = createMount(app, services);
  const servicesOf = (c: Context<AppEnv>, engine: Engine): AgUiServices => {
    const tenant = c.get("tenant");
    const names = { runs: runs.of(tenant), aliases: aliases.of(tenant) };
    // Two workspaces may use the same thread id.
    const inThread: AgUiServices["inThread"] = (threadId, task) =>
      threads.run(`${tenant}\n${threadId}`, task);
    return { ...services, ...names, engine, inThread, logger };
  };

  mount(agUiOperations.agUiRun, ({ c, engine, query, body: input }) =>
    postRun(servicesOf(c, engine), { c, agent: agentOf(c), query, input }),
  );

  mount(agUiOperations.agUiRead, async ({ c, engine, query }) => {
    const own = servicesOf(c, engine);
    const { threadId, runId } = query;
    const seen = c.req.header("last-event-id") ?? query.offset;
    const reading = { c, query, view: toView(query) };
    if (runId !== undefined) return readRun(own, { ...reading, agent: agentOf(c), threadId, runId, seen });
    if (threadId === undefined) throw namesNeither();
    if (seen !== undefined) return readThread(own, { ...reading, agent: agentOf(c), threadId, seen });
    return c.json(await hydrate(own, agentOf(c), { ...query, threadId }));
  });

  mount(agUiOperations.agUiStop, ({ c, engine, query: { threadId, runId } }) =>
    stopNamedRun(servicesOf(c, engine), { agent: agentOf(c), threadId, runId }),
  );

  mount(agUiOperations.agUiCapabilities, async ({ c, engine }) => {
    const own = servicesOf(c, engine);
    const agent = await findAgent(own, c);
    const isSandboxed = !isOpenSandbox(await own.engine.defaultSandbox());
    return c.json(toCapabilities(agent, { isSandboxed, speaksProto: await speaksProto() }));
  });
}

function agentOf(c: Context<AppEnv>): string {
  return toAgentId(c.req.param("agent") ?? "");
}

async function findAgent({ engine }: AgUiServices, c: Context<AppEnv>): Promise<AgentInfo> {
  const agent = agentOf(c);
  const agents = await engine.agents();
  const found = agents.find(({ id }) => id === agent);
  if (found) return found;
  throw new SluiceError("not_found", `There is no agent "${agent}". GET /v1/agents lists the agents.`, {
    agents: agents.map(({ id }) => id),
  });
}

/** The capabilities of an agent, as in `AgentCapabilitiesSchema`. */
function toCapabilities(
  { id, title, version, capabilities }: AgentInfo,
  here: { readonly isSandboxed: boolean; readonly speaksProto: boolean },
): object {
  const has = (name: string): boolean => capabilities[name] === true;
  return {
    identity: { name: title, type: id, ...(version === undefined ? {} : { version }), provider: "sluice" },
    transport: {
      streaming: true,
      websocket: false,
      httpBinary: here.speaksProto,
      pushNotifications: false,
      resumable: true,
    },
    tools: { supported: true, items: [], parallelCalls: true, clientProvided: true },
    output: { structuredOutput: false, supportedMimeTypes: ["text/plain"] },
    state: { snapshots: true, deltas: true, memory: true, persistentState: true },
    multiAgent: { supported: has("subagents"), delegation: has("subagents"), handoffs: false },
    reasoning: { supported: has("reasoning"), streaming: has("reasoning"), encrypted: false },
    multimodal: {
      input: { image: has("images"), audio: false, video: false, pdf: true, file: true },
      output: {},
    },
    execution: { codeExecution: true, sandboxed: here.isSandboxed },
    humanInTheLoop: { supported: true, approvals: true, interventions: true, feedback: false },
    custom: { sluice: capabilities },
  };
}
