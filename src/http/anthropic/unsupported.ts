import type { Hono } from "hono";
import { refuse } from "../../dialects/anthropic/resources/refusal.ts";
import type { AppEnv } from "../env.ts";
import { PREFIX } from "./path.ts";

const GROUPS = {
  memory_stores: "Memory stores",
  deployments: "Deployments",
  deployment_runs: "Deployments",
  dreams: "Dreams",
  outcomes: "Outcomes",
  tunnels: "Tunnels",
};

/** What the official service has and this one has not: said in one answer, which no SDK asks for again. */
export function mountUnsupported(app: Hono<AppEnv>): void {
  for (const [group, name] of Object.entries(GROUPS)) {
    const answer = (): never => {
      throw refuse(`${name} are not supported here.`);
    };
    app.all(`${PREFIX}/${group}`, answer);
    app.all(`${PREFIX}/${group}/*`, answer);
  }
}
