import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  DELTA_BYTES,
  type BenchSession,
  type Contender,
  type RunningServer,
  type StartOptions,
} from "./contender.ts";
import { endChild } from "../processes.ts";
import { call, inParallel } from "../clients/http.ts";
import { listeningUrl } from "../processes.ts";
import { bundled, ROOT } from "../environment.ts";

/** The deltas of one message, about a long answer. */
const DELTAS_PER_MESSAGE = 400;

/** A real `sluice serve`; `nodeFlags` may ask for a profile of it. */
export function createSluice(options: { nodeFlags?: readonly string[] } = {}): Contender {
  return {
    name: "sluice",
    start: (start) => startSluice(start ?? {}, options.nodeFlags ?? []),
  };
}

async function startSluice(start: StartOptions, nodeFlags: readonly string[]): Promise<RunningServer> {
  const data = await mkdtemp(join(tmpdir(), "sluice-bench-data-"));
  const serve = ["serve", "--port", "0", "--data", data, "--no-token"];
  const begun = performance.now();
  const child = start.plainly
    ? spawn(join(ROOT, "bin/sluice"), serve, { stdio: ["ignore", "pipe", "ignore"] })
    : spawn(process.execPath, [...HOOKED, ...nodeFlags, join(ROOT, "bin/sluice"), ...serve], {
        stdio: ["ignore", "pipe", "ignore", "ipc"],
      });
  const remove = async (): Promise<void> => {
    await endChild(child, "SIGTERM");
    await rm(data, { recursive: true, force: true, maxRetries: 3 });
  };
  const url = await untilReady(child).catch(async (error: unknown) => {
    await remove();
    throw error;
  });
  const readyMs = performance.now() - begun;
  let sessions = 0;
  return {
    url,
    readyMs,
    pids: () => [child.pid ?? 0],
    probe: async () => void (await call("GET", `${url}/v1/health`)),
    async collect() {
      if (!child.connected) return;
      const collected = once(child, "message");
      child.send("collect");
      await collected;
    },
    openSession: (first) => openSession(`${url}/v1/sessions/bench-${++sessions}`, first?.deltas),
    async createIdle(count) {
      const first = sessions;
      sessions += count;
      await inParallel(count, 8, (index) =>
        call("POST", `${url}/v1/sessions/bench-${first + index + 1}`, { agent: "scripted" }),
      );
    },
    async stop() {
      // A server that has ended cannot be asked; an interrupted one has ended its agents itself.
      await endAgents(url).catch(() => {});
      await remove();
    },
  };
}

const HOOKED = ["--expose-gc", "--import", bundled("memory-hook.js")];

async function openSession(url: string, first = DELTAS_PER_MESSAGE): Promise<BenchSession> {
  await call("POST", url, { agent: "scripted" });
  const session: BenchSession = {
    stream: { url: `${url}/events/sse?extensions=true`, headers: {} },
    head: async () => (await readInfo(url)).eventCount,
    async flood(deltas) {
      const floods: unknown[] = [];
      for (let left = deltas; left > 0; left -= DELTAS_PER_MESSAGE) {
        floods.push({ flood: { events: Math.min(left, DELTAS_PER_MESSAGE), bytes: DELTA_BYTES } });
      }
      await call("POST", `${url}/messages`, { message: `#script ${JSON.stringify(floods)}` });
    },
    prompt: {
      url: `${url}/messages`,
      body: JSON.stringify({ message: '#script [{"say":"one two three"}]' }),
      agentMark: '"source":"agent"',
    },
    endMark: '"type":"turn.ended"',
  };
  await session.flood(first);
  await untilIdle(url);
  return session;
}

/** Waits until the session is idle. */
export async function untilIdle(url: string): Promise<void> {
  const deadline = Date.now() + 120_000;
  while (Date.now() < deadline) {
    const { status, eventCount } = await readInfo(url);
    if (status === "idle" && eventCount > 5) return;
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  throw new Error(`${url} is not idle after two minutes`);
}

async function readInfo(url: string): Promise<{ status: string; eventCount: number }> {
  return JSON.parse((await call("GET", url)).text) as { status: string; eventCount: number };
}

/** The agents outlive their server, so they are ended before it. */
export async function endAgents(url: string): Promise<void> {
  for (let cursor = ""; ;) {
    const { text } = await call("GET", `${url}/v1/sessions?limit=200${cursor}`);
    const page = JSON.parse(text) as {
      sessions: { sessionId: string; eventCount: number }[];
      next?: string;
    };
    const begun = page.sessions.filter(({ eventCount }) => eventCount > 0);
    await inParallel(begun.length, 8, async (index) => {
      const { sessionId } = begun[index]!;
      await call("POST", `${url}/v1/sessions/${sessionId}/terminate`).catch(() => {});
    });
    if (page.next === undefined) return;
    cursor = `&cursor=${page.next}`;
  }
}

/** Its address, once it has answered. */
async function untilReady(child: ChildProcess): Promise<string> {
  const url = await listeningUrl(child);
  await call("GET", `${url}/v1/health`);
  return url;
}
