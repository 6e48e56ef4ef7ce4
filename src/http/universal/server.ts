import { z } from "zod";
import { demandServerWide } from "../access/demand.ts";
import { defineOperations, json, type Mount } from "../operation.ts";
import type { Services } from "../services.ts";
import { toHealth } from "./health.ts";
import { readMetrics } from "./metrics.ts";
import * as responses from "./responses.ts";

export const serverOperations = defineOperations({
  health: {
    method: "GET",
    path: "/v1/health",
    scope: "open",
    tag: "server",
    summary: "Whether the server is up",
    answer: json("The server is up", responses.Health),
  },
  healthz: {
    method: "GET",
    path: "/healthz",
    scope: "open",
    tag: "server",
    summary: "The same, for probes",
    answer: json("The server is up", responses.Health),
  },
  metrics: {
    method: "GET",
    path: "/metrics",
    scope: "admin",
    tag: "server",
    summary: "Counters and gauges for Prometheus",
    answer: { status: 200, description: "The metrics", mime: "text/plain" },
  },
  openapi: {
    method: "GET",
    path: "/openapi.json",
    scope: "read",
    tag: "server",
    summary: "This document",
    answer: json("The document", z.record(z.string(), z.unknown())),
  },
  home: {
    method: "GET",
    path: "/",
    scope: "open",
    tag: "server",
    summary: "A page that describes the server",
    answer: { status: 200, description: "The page", mime: "text/html" },
  },
  listAgents: {
    method: "GET",
    path: "/v1/agents",
    scope: "read",
    tag: "agents",
    summary: "The agents and their capabilities",
    answer: json("The agents", responses.AgentList),
  },
});

/** The server's own calls, and its agents. `describe` returns the OpenAPI document. */
export function mountServer(
  mount: Mount,
  services: Services,
  describe: (about: { version: string }) => Promise<object>,
): void {
  const { engine, version } = services;
  let document: Promise<string> | undefined;

  for (const operation of [serverOperations.health, serverOperations.healthz] as const)
    mount(operation, ({ c }) => c.json(toHealth(c.req.path, version)));
  mount(serverOperations.metrics, ({ c }) => {
    demandServerWide(c);
    return c.body(readMetrics(services), 200, { "content-type": "text/plain; version=0.0.4; charset=utf-8" });
  });
  mount(serverOperations.openapi, async ({ c }) => {
    document ??= describe({ version }).then((described) => JSON.stringify(described));
    return c.body(await document, 200, { "content-type": "application/json" });
  });
  mount(serverOperations.home, ({ c }) => c.html(PAGE));
  mount(serverOperations.listAgents, async ({ c }) => c.json({ agents: await engine.agents() }));
}

const PAGE = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>sluice</title>
<style>body{font:16px/1.5 system-ui;max-width:40rem;margin:4rem auto;padding:0 1rem}code{background:#8882;padding:0 .2em}</style>
<h1>sluice</h1>
<p>This server runs coding agents in a sandbox and keeps one durable event log per session.</p>
<p>Its API is under <code>/v1</code>, described by <a href="/openapi.json"><code>/openapi.json</code></a>. Send the
server's token with each request: <code>Authorization: Bearer &lt;token&gt;</code>. <code>sluice doctor</code> says
where the token is.</p>
</html>
`;
