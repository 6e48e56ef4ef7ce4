import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { EventOf, EventType, SessionSpec, SluiceEvent } from "../../src/contract/index.ts";
import { createSqliteLog, type EventLog } from "../../src/log/index.ts";
import { createEngine, type Engine, type EngineOptions } from "../../src/sessions/index.ts";

/** A real engine on a real database in a folder of its own; `restart()` is a new life on the same folder. */
export interface TestEngine {
  readonly engine: Engine;
  readonly log: EventLog;
  readonly folder: string;
  restart(options?: Partial<EngineOptions>): Promise<void>;
  close(): Promise<void>;
}

export async function openEngine(options: Partial<EngineOptions> = {}): Promise<TestEngine> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-test-"));
  const open = async (options: Partial<EngineOptions>): Promise<{ engine: Engine; log: EventLog }> => {
    const log = options.log ?? (await createSqliteLog({ folder }));
    return { log, engine: await createEngine({ dataDir: folder, ...options, log }) };
  };
  let life = await open(options);
  return {
    get engine() {
      return life.engine;
    },
    get log() {
      return life.log;
    },
    folder,
    async restart(again = options) {
      await life.engine.close();
      await life.log.close();
      life = await open(again);
    },
    async close() {
      const { sessions } = await life.engine.list({ limit: 1000 });
      for (const { sessionId } of sessions) await life.engine.remove(sessionId);
      await life.engine.close();
      await life.log.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** `#script` and the steps, as the scripted agent takes them. */
export function script(...steps: unknown[]): string {
  return `#script ${JSON.stringify(steps)}`;
}

export const SCRIPTED: SessionSpec = { agent: "scripted" };

export function say(engine: Engine, session: string, text: string, key?: string): ReturnType<Engine["send"]> {
  return engine.send(session, {
    content: [{ type: "text", text }],
    via: "test",
    ...(key === undefined ? {} : { key }),
  });
}

/** The whole log, parsed. */
export async function readAll(log: EventLog, session: string, raw = false): Promise<SluiceEvent[]> {
  const events: SluiceEvent[] = [];
  for (;;) {
    const page = await log.read(session, { after: events.length, limit: 1000, raw });
    if (page.length === 0) return events;
    for (const stored of page) {
      const event = JSON.parse(stored.body) as SluiceEvent;
      if (stored.raw !== undefined) event.raw = JSON.parse(stored.raw);
      events.push(event);
    }
  }
}

/** Waits for the first event behind `after` that passes the test. */
export async function waitFor<T extends EventType>(
  log: EventLog,
  session: string,
  type: T,
  options: { after?: number; where?: (event: EventOf<T>) => boolean; timeoutMs?: number } = {},
): Promise<EventOf<T>> {
  const signal = AbortSignal.timeout(options.timeoutMs ?? 30_000);
  let after = options.after ?? 0;
  for (;;) {
    const page = await log.read(session, { after, limit: 1000 });
    for (const stored of page) {
      after = stored.sequence;
      if (stored.type !== type) continue;
      const event = JSON.parse(stored.body) as EventOf<T>;
      if (options.where?.(event) ?? true) return event;
    }
    if (page.length === 0) await log.moved(session, after, { signal });
  }
}

export async function runTurn(
  test: TestEngine,
  session: string,
  text: string,
): Promise<EventOf<"turn.ended">> {
  const { turnId, after } = await say(test.engine, session, text);
  return waitFor(test.log, session, "turn.ended", { after, where: (event) => event.data.turn_id === turnId });
}

export function ofType<T extends EventType>(events: readonly SluiceEvent[], type: T): EventOf<T>[] {
  return events.filter((event): event is EventOf<T> => event.type === type);
}

/** Every process whose environment carries the marker of a sandbox below this folder or the given text. */
export async function processesWith(text: string): Promise<number[]> {
  const found: number[] = [];
  for (const name of await readdir("/proc")) {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) continue;
    try {
      const [cmdline, environ, stat] = await Promise.all(
        ["cmdline", "environ", "stat"].map((file) => readFile(`/proc/${name}/${file}`, "utf8")),
      );
      const isZombie = stat?.slice(stat.lastIndexOf(")") + 2).startsWith("Z") ?? true;
      if (!isZombie && (cmdline?.includes(text) || environ?.includes(text))) found.push(Number(name));
    } catch {
      // It has ended while we looked.
    }
  }
  return found;
}
