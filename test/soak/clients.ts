import { setTimeout as sleep } from "node:timers/promises";
import type { CreateSession } from "../../src/contract/index.ts";
import type { AgentId } from "../support/agents.ts";
import { LED_TO_MODEL } from "../support/model.ts";
import type { TestServer } from "../support/server.ts";
import type { Chance } from "./chance.ts";
import { SoakedSession } from "./session.ts";
import { toModelScript, toScript } from "./steps.ts";

export interface Tally {
  sessions: number;
  inputs: number;
  /** The number of live frames that the log repeated, by dialect. */
  readonly frames: Record<string, number>;
  /** The broken promises, in words. */
  readonly findings: string[];
  /** The sandboxes that there were. */
  readonly sandboxes: Set<string>;
}

export interface Client {
  readonly server: TestServer;
  readonly chance: Chance;
  readonly name: string;
  /** The real CLIs that it drives one after the other; none of them, and it drives the scripted agent. */
  readonly agents: readonly AgentId[];
  readonly modelUrl: string;
  readonly tally: Tally;
  /** The faults of the server and its processes. */
  readonly journal: readonly string[];
  /** The current work of each participant, by name: a run that does not end says where it waits. */
  readonly doing: Map<string, string>;
  isOver(): boolean;
}

/** Sessions one after the other, each checked and removed when it is done, during the faults of the server. */
export async function drive(client: Client): Promise<void> {
  for (let n = 0; !client.isOver(); n++) await live(client, `${client.name}-${n}`, toSpec(client, n));
  client.doing.delete(client.name);
}

/** At least a few, also where time is short. */
export async function driveOnce(client: Client): Promise<void> {
  for (let n = 0; n < 3; n++) await live(client, `${client.name}-${n}`, toSpec(client, n));
}

async function live(client: Client, id: string, spec: CreateSession): Promise<void> {
  const { server, chance, tally } = client;
  const does = (what: string): unknown => client.doing.set(client.name, `${id} (${spec.agent}): ${what}`);
  let session: SoakedSession | undefined;
  try {
    does("make");
    session = await SoakedSession.make(server, id, spec, chance);
    if (session === undefined) return;
    tally.sessions++;
    for (let turns = 1 + chance.below(3); turns > 0; turns--) {
      does("send");
      await session.send(spec.agent === "scripted" ? toScript(chance) : toModelScript(chance));
      await sleep(chance.below(1_000));
      does("meddle");
      await session.meddle();
    }
    if (chance.is(0.08)) return await session.remove();
    if (chance.is(0.08) && spec.agent === "scripted" && spec.fork === undefined)
      await live(client, `${id}-fork`, { ...spec, fork: { session: id } });
    const { events, frames } = await session.check(does);
    for (const [dialect, count] of Object.entries(frames))
      tally.frames[dialect] = (tally.frames[dialect] ?? 0) + count;
    tally.inputs += session.accepted.length;
    for (const event of events)
      if (event.type === "sandbox.boot") tally.sandboxes.add(event.data.sandbox_id ?? "");
    does("remove");
    await session.remove();
  } catch (error) {
    const told = (await session?.tell(client.journal)) ?? "";
    const finding = `${id} (${spec.agent}): ${(error as Error).message.slice(0, 4_000)}`;
    tally.findings.push(finding);
    console.log(`FINDING ${finding}\n${told}`);
  } finally {
    session?.stop();
  }
}

function toSpec({ agents, modelUrl }: Client, n: number): CreateSession {
  const agent = agents[n % agents.length];
  if (agent === undefined) return { agent: "scripted" };
  const { model, env } = LED_TO_MODEL[agent];
  return { agent, model, env: env(modelUrl), permissionMode: "bypass" };
}
