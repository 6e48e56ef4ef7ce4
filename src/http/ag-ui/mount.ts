import type { Context, Hono } from "hono";
import { SluiceError } from "../../contract/index.ts";
import type { Catalog } from "../../catalog/port.ts";
import { RunInput } from "../../dialects/ag-ui/input.ts";
import { toAgentId } from "../../dialects/ag-ui/session-id.ts";
import { parseQuery, parseWith } from "../../dialects/universal/index.ts";
import type { AgentInfo } from "../../sessions/port.ts";
import { KeyedLock } from "../anthropic/keyed-lock.ts";
import { readBody } from "../body.ts";
import type { AppEnv } from "../env.ts";
import { parseJson, parseText } from "../json.ts";
import type { Logger } from "../logger.ts";
import type { Services } from "../services.ts";
import { toCapabilities } from "./capabilities.ts";
import { speaksProto } from "./format.ts";
import { hydrate } from "./hydrate.ts";
import { BASE } from "./path.ts";
import { ReadQuery, RunQuery, toView } from "./query.ts";
import { readRun, readThread } from "./read.ts";
import { postRun } from "./run.ts";
import type { AgUiServices } from "./services.ts";
import { SessionIndex } from "./session-index.ts";
import { stopNamedRun } from "./stop.ts";

/** Mounts the AG-UI dialect: any of its clients can be pointed at `/ag-ui/{agent}`. */
export function mountAgUi(
  app: Hono<AppEnv>,
  services: Services,
  { catalog, logger }: { catalog: Catalog | undefined; logger: Logger },
): void {
  const own: AgUiServices = {
    ...services,
    logger,
    runs: new SessionIndex("ag-ui.run", catalog),
    aliases: new SessionIndex("ag-ui.thread", catalog),
    threads: new KeyedLock(),
  };
  const path = `${BASE}/:agent`;

  app.post(path, async (c) => {
    const query = queryOf(c, RunQuery);
    const input = parseWith(RunInput, parseJson(parseText(await readBody(c, own.limits.json))), "body");
    return postRun(own, { c, agent: agentOf(c), query, input });
  });

  app.get(path, async (c) => {
    const query = queryOf(c, ReadQuery);
    const { threadId, runId } = query;
    const seen = c.req.header("last-event-id") ?? query.offset;
    const reading = { c, query, view: toView(query) };
    if (runId !== undefined)
      return readRun(own, { ...reading, agent: agentOf(c), threadId, runId, seen: seen ?? "-1" });
    if (threadId === undefined)
      throw new SluiceError("invalid_request", "Say which: threadId, runId, or both.");
    if (seen !== undefined) return readThread(own, { ...reading, agent: agentOf(c), threadId, seen });
    return c.json(await hydrate(own, agentOf(c), { ...query, threadId }));
  });

  app.delete(path, async (c) => {
    const { threadId, runId } = queryOf(c, ReadQuery);
    await stopNamedRun(own, { agent: agentOf(c), threadId, runId });
    return c.body(null, 204);
  });

  app.get(`${path}/capabilities`, async (c) => {
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
  throw new SluiceError("not_found", `There is no agent "${agent}".`, { agents: agents.map(({ id }) => id) });
}

function queryOf<T>(c: Context<AppEnv>, schema: Parameters<typeof parseQuery<T>>[0]): T {
  return parseQuery(schema, new URL(c.req.url).searchParams);
}
