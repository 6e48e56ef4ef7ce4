import type { Context, Hono } from "hono";
import type { Catalog } from "../../catalog/port.ts";
import { SluiceError } from "../../contract/index.ts";
import { RunInput } from "../../dialects/ag-ui/parse.ts";
import { toAgentId } from "../../dialects/ag-ui/projection.ts";
import { parseQuery } from "../../dialects/universal/index.ts";
import type { AgentInfo } from "../../sessions/port.ts";
import type { RouteRow } from "../access/route-table.ts";
import { readJson } from "../body/json.ts";
import type { AppEnv, Logger } from "../context.ts";
import { KeyedLock } from "../keyed-lock.ts";
import { mountRoute } from "../operation.ts";
import type { Services } from "../services.ts";
import { hydrate } from "./history.ts";
import { readRun, readThread } from "./read.ts";
import { postRun } from "./run.ts";
import { namesNeither, stopNamedRun } from "./stop.ts";
import { type AgUiServices, SessionIndex } from "./thread.ts";
import { ReadQuery, RunQuery, speaksProto, toView } from "./view.ts";

/** Mounts the AG-UI dialect: the URL of a client is `/ag-ui/{agent}`. */
export function mountAgUi(
  app: Hono<AppEnv>,
  services: Services,
  { catalog, logger }: { catalog: Catalog | undefined; logger: Logger },
): void {
  const runs = new SessionIndex("ag-ui.run", catalog);
  const aliases = new SessionIndex("ag-ui.thread", catalog);
  const threads = new KeyedLock();
  const path = "/ag-ui/:agent";
  const route = (row: RouteRow, handle: (c: Context<AppEnv>, own: AgUiServices) => Promise<Response>): void =>
    mountRoute(app, services, row, (c, engine) => {
      const tenant = c.get("tenant");
      const names = { runs: runs.of(tenant), aliases: aliases.of(tenant) };
      return handle(c, { ...services, ...names, engine, threads, logger });
    });

  // Messages demand more than the scope of the route, which is that of answers.
  route({ method: "POST", path, scope: "answer" }, async (c, own) => {
    const query = queryOf(c, RunQuery);
    const input = await readJson(c, RunInput, own.limits.json);
    return postRun(own, { c, agent: agentOf(c), query, input });
  });

  route({ method: "GET", path, scope: "read" }, async (c, own) => {
    const query = queryOf(c, ReadQuery);
    const { threadId, runId } = query;
    const seen = c.req.header("last-event-id") ?? query.offset;
    const reading = { c, query, view: toView(query) };
    if (runId !== undefined) return readRun(own, { ...reading, agent: agentOf(c), threadId, runId, seen });
    if (threadId === undefined) throw namesNeither();
    if (seen !== undefined) return readThread(own, { ...reading, agent: agentOf(c), threadId, seen });
    return c.json(await hydrate(own, agentOf(c), { ...query, threadId }));
  });

  route({ method: "DELETE", path, scope: "control" }, async (c, own) => {
    const { threadId, runId } = queryOf(c, ReadQuery);
    await stopNamedRun(own, { agent: agentOf(c), threadId, runId });
    return c.body(null, 204);
  });

  route({ method: "GET", path: `${path}/capabilities`, scope: "read" }, async (c, own) => {
    const agent = await findAgent(own, c);
    const isSandboxed = (await own.engine.defaultSandbox()) !== "local";
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

function queryOf<T>(c: Context<AppEnv>, schema: Parameters<typeof parseQuery<T>>[0]): T {
  return parseQuery(schema, new URL(c.req.url).searchParams);
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
