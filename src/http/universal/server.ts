import { hostname } from "node:os";
import { z } from "zod";
import { SluiceError } from "../../contract/index.ts";
import { demandServerWide } from "../access/demand.ts";
import { defineOperations, json, type Mount } from "../operation.ts";
import type { Services } from "../services.ts";
import { toHealth } from "./health.ts";
import { readMetrics } from "./metrics.ts";
import * as responses from "../../contract/responses.ts";

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
    summary: "Leads to the page at /ui/",
    answer: { status: 302, description: "The page", headers: { location: "/ui/" } },
  },
  listNodes: {
    method: "GET",
    path: "/v1/nodes",
    scope: "read",
    tag: "server",
    summary: "The servers that share the database, the longest running first (extension)",
    answer: json("The nodes; without a database this server alone", responses.NodeList),
    errors: ["permission_denied"],
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
  const { engine, version, nodes } = services;
  const startedAt = Date.now();
  let document: Promise<string> | undefined;

  for (const operation of [serverOperations.health, serverOperations.healthz] as const)
    mount(operation, ({ c }) => {
      // A load balancer then asks the other nodes.
      if (nodes?.isDraining) throw new SluiceError("draining", "This node shuts down. Use another one.");
      return c.json(toHealth(c.req.path, version));
    });
  mount(serverOperations.metrics, ({ c }) => {
    demandServerWide(c);
    return c.body(readMetrics(services), 200, { "content-type": "text/plain; version=0.0.4; charset=utf-8" });
  });
  mount(serverOperations.openapi, async ({ c }) => {
    // The next request tries again after a failed load of the document's code.
    document ??= describe({ version })
      .then((described) => JSON.stringify(described))
      .catch((error: unknown) => {
        document = undefined;
        throw error;
      });
    return c.body(await document, 200, { "content-type": "application/json" });
  });
  mount(serverOperations.listNodes, async ({ c }) => {
    demandServerWide(c);
    const { processesRunning: sessions } = engine.stats();
    const alone = { name: hostname(), version, state: "live", self: true, startedAt, sessions } as const;
    return c.json({ nodes: nodes ? await nodes.list() : [alone] });
  });
  mount(serverOperations.home, ({ c }) => c.redirect("/ui/", 302));
  mount(serverOperations.listAgents, async ({ c }) => c.json({ agents: await engine.agents() }));
}
