import Anthropic from "@anthropic-ai/sdk";
import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startServer, type TestServer } from "../../../support/server.ts";
import { type Event, idsOf, makeSession } from "../session-bench.ts";
import { type McpServer, startMcpServer } from "../vaults/mcp-server.ts";
import { Actor, isProcessed } from "./step-actor.ts";
import { type Scenario, toScenarios } from "./step-scenarios.ts";

let server: TestServer;
let mcp: McpServer;
let beta: Anthropic["beta"];
let scenarios: readonly Scenario[];
let uncut: ReadonlyMap<string, string>;
beforeAll(async () => {
  mcp = await startMcpServer(() => true);
  server = await startServer();
  beta = new Anthropic({ apiKey: server.token, baseURL: `${server.url}/anthropic`, maxRetries: 6 }).beta;
  scenarios = toScenarios(mcp.url);
  uncut = await play(scenarios);
}, 120_000);
afterAll(async () => {
  await server.close();
  mcp.close();
}, 120_000);

async function killAndStart(): Promise<void> {
  await server.kill();
  await server.start();
}

interface Fate {
  /** Runs beside each step; the first step creates the sessions. */
  readonly meanwhile?: (step: number) => Promise<void>;
  readonly between?: (actors: readonly Actor[]) => Promise<void>;
}

/** Runs the scenarios in parallel, step by step; returns the final state of each. */
async function play(played: readonly Scenario[], fate: Fate = {}): Promise<Map<string, string>> {
  const { meanwhile = async () => {}, between = async () => {} } = fate;
  const cast = played.map((scenario) => ({ scenario, actor: new Actor(beta, scenario.name) }));
  const actors = cast.map(({ actor }) => actor);
  const open = async ({ scenario, actor }: (typeof cast)[number]): Promise<void> => {
    actor.held["session"] = (await makeSession({ beta }, scenario.wish)).id;
  };
  await Promise.all([...cast.map(open), meanwhile(0)]);
  await between(actors);
  const longest = Math.max(...played.map(({ steps }) => steps.length));
  for (let step = 0; step < longest; step += 1) {
    const acts = cast.map(({ scenario, actor }) => scenario.steps[step]?.(actor));
    await Promise.all([...acts, meanwhile(step + 1)]);
    await between(actors);
  }
  const outcomes = await Promise.all(actors.map((actor) => actor.outcome()));
  await Promise.all(actors.map(({ id }) => beta.sessions.delete(id).catch(isGone)));
  expect((await server.client.sessions.list({})).sessions).toEqual([]);
  return new Map(actors.map(({ name }, at) => [name, outcomes[at] ?? ""]));
}

function isGone(error: { status?: number }): void {
  if (error.status !== 404) throw error;
}

async function told(actor: Actor): Promise<Event[]> {
  return (await actor.history().catch(() => [])).filter(isProcessed);
}

/** Earlier events keep their content and order; an actor of a deleted session has none. */
async function cut(actors: readonly Actor[]): Promise<void> {
  const before = await Promise.all(actors.map(told));
  await killAndStart();
  const since = await Promise.all(actors.map(told));
  for (const [at, actor] of actors.entries()) {
    const after = since[at] ?? [];
    const known = before[at] ?? [];
    expect(after.slice(0, known.length), actor.name).toEqual(known);
    expect(new Set(idsOf(after)).size, actor.name).toBe(after.length);
  }
}

function expectUncut(outcomes: ReadonlyMap<string, string>): void {
  for (const [name, outcome] of outcomes) expect(outcome, name).toBe(uncut.get(name));
}

describe("C8: a server that is killed by SIGKILL", () => {
  it("between any two steps of a turn changes no event", async () => {
    expectUncut(await play(scenarios, { between: cut }));
  }, 240_000);

  it("at any moment changes no event", async () => {
    const offline = scenarios.filter(({ isOnline }) => !isOnline);
    const some = fc.shuffledSubarray(offline, { minLength: 6, maxLength: 6 });
    const moments = fc.array(fc.integer({ min: 0, max: 700 }), { minLength: 7, maxLength: 7 });
    const property = fc.asyncProperty(some, moments, async (played, delays) => {
      const meanwhile = async (step: number): Promise<void> => {
        await new Promise((resolve) => setTimeout(resolve, delays[step]));
        await killAndStart();
      };
      expectUncut(await play(played, { meanwhile }));
    });
    await fc.assert(property, { numRuns: 1, endOnFailure: true });
  }, 480_000);
});
