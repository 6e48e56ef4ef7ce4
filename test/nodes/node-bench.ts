import { readdirSync, readFileSync } from "node:fs";
import { expect } from "vitest";
import type { SluiceEvent } from "../../src/contract/index.ts";
import type { TestServer } from "../support/server.ts";
import { readFrames } from "../support/sse.ts";

/** The key and the token of all nodes. */
export const KEY = "0123456789abcdef".repeat(4);
export const TOKEN = "one-token-for-all-nodes";

export const POLL = { timeout: 30_000, interval: 100 };

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** The processes of agents that belong to a data folder. */
export function processesIn(folder: string): string[] {
  return readdirSync("/proc").filter((pid) => {
    if (!/^\d+$/.test(pid)) return false;
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(`${folder}/spools`);
    } catch {
      return false;
    }
  });
}

export async function create(server: TestServer, id: string): Promise<void> {
  const body = JSON.stringify({ agent: "scripted" });
  const answer = await server.fetch(`/v1/sessions/${id}`, { method: "POST", body });
  expect(answer.ok, await answer.text()).toBe(true);
}

export async function send(server: TestServer, id: string, text: string, key?: string): Promise<Response> {
  const answer = await server.fetch(`/v1/sessions/${id}/messages`, {
    method: "POST",
    body: JSON.stringify({ message: text }),
    headers: key === undefined ? {} : { "idempotency-key": key },
  });
  expect(answer.ok, await answer.clone().text()).toBe(true);
  return answer;
}

export async function eventsOf(server: TestServer, id: string): Promise<SluiceEvent[]> {
  const page = await server.fetch(`/v1/sessions/${id}/events?extensions=true&limit=1000`);
  return ((await page.json()) as { events: SluiceEvent[] }).events;
}

/** The events up to the end of the turn, as an SSE client gets them. */
export async function readTurn(server: TestServer, id: string, after = 0): Promise<SluiceEvent[]> {
  const frames = await readFrames(server, id, { after, until: ({ data }) => data.includes('"turn.ended"') });
  return frames.map(({ data }) => JSON.parse(data) as SluiceEvent);
}

export function isAgents({ data }: { data: string }): boolean {
  return data.includes('"source":"agent"') && data.includes('"item.delta"');
}
