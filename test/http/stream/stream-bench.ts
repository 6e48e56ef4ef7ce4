import { mkdtempSync, rmSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Hono } from "hono";
import type { EventDraft } from "../../../src/contract/index.ts";
import type { Dialect } from "../../../src/dialects/port.ts";
import { parseCursor, universal, type UniversalView } from "../../../src/dialects/universal/index.ts";
import type { App } from "../../../src/http/app.ts";
import type { AppEnv } from "../../../src/http/context.ts";
import { Meter } from "../../../src/http/meter.ts";
import { type Listening, listen } from "../../../src/http/server.ts";
import type { FeedLimits } from "../../../src/http/stream/feed.ts";
import { RouteTable } from "../../../src/http/access/route-table.ts";
import { EventStreams } from "../../../src/http/stream/sse.ts";
import { createMemoryLog, createSqliteLog, type EventLog } from "../../../src/log/index.ts";

export type LogKind = "memory" | "sqlite";

export interface StreamBench {
  readonly log: EventLog;
  readonly streams: EventStreams;
  readonly meter: Meter;
  readonly app: App;
  readonly url: string;
  /** The sockets' ends of the server, by the `name` that each reader gave. */
  readonly outgoing: Map<string, ServerResponse>;
  readonly problems: unknown[];
  append(events: readonly EventDraft[]): Promise<void>;
  close(): Promise<void>;
}

/** The real writer over a real log on a real port, for one session `s`: `GET /?name=&after=&view=`. */
export async function openStreamBench(
  options: {
    kind?: LogKind;
    pingMs?: number;
    limits?: Partial<FeedLimits>;
    dialect?: Dialect<never, never>;
  } = {},
): Promise<StreamBench> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-http-"));
  const log = options.kind === "sqlite" ? createSqliteLog({ folder }) : createMemoryLog();
  const row = await log.create({ id: "s", spec: { agent: "scripted" }, owner: "bench", time: 1 });
  const meter = new Meter();
  const problems: unknown[] = [];
  const streams = new EventStreams({
    log,
    meter,
    logger: (line) => problems.push(line),
    ...(options.pingMs && { pingMs: options.pingMs }),
    ...(options.limits && { limits: options.limits }),
  });
  const outgoing = new Map<string, ServerResponse>();
  const hono = new Hono<AppEnv>();
  hono.get("/", (c) => {
    const { name = "", after, view = "{}" } = c.req.query();
    if (c.env?.outgoing) outgoing.set(name, c.env.outgoing);
    return streams.respond(c, {
      session: "s",
      ordinal: row.ordinal,
      dialect: (options.dialect ?? universal) as Dialect<UniversalView, UniversalView>,
      view: JSON.parse(view) as UniversalView,
      after: parseCursor({ after: Number(after ?? 0) }, c.req.header("last-event-id")) ?? 0,
    });
  });
  const app = Object.assign(hono, { cutStreams: () => streams.cutAll(), streams, scopes: new RouteTable() });
  const server: Listening = await listen({ app, host: "127.0.0.1", port: 0 });
  return {
    log,
    streams,
    meter,
    app,
    url: server.url,
    outgoing,
    problems,
    async append(events) {
      await log.append("s", { epoch: row.epoch, time: 1_700_000_000_000, events });
    },
    async close() {
      await server.close();
      await log.close();
      rmSync(folder, { recursive: true });
    },
  };
}

export function delta(text: string, more: Partial<EventDraft> = {}): EventDraft {
  return {
    type: "item.delta",
    source: "agent",
    data: { item_id: "itm_1", delta: text },
    ...more,
  } as EventDraft;
}

export const ended: EventDraft = {
  type: "session.ended",
  source: "daemon",
  data: { reason: "completed", terminated_by: "agent" },
};
