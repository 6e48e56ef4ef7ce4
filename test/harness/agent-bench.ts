import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import type { ContentPart, EventOf, EventType, SessionSpec, SluiceEvent } from "../../src/contract/index.ts";
import type { Harness } from "../../src/harness/port.ts";
import { createScriptedModel, type ScriptedModel } from "../../src/model/index.ts";
import {
  ofType,
  openEngine,
  processesWith,
  readAll,
  script,
  type TestEngine,
  waitFor,
} from "../support/engine.ts";
import { expectLawful } from "../support/laws.ts";

/** A real agent, a real engine, and the scripted model behind them. */
export interface AgentBench {
  readonly test: TestEngine;
  readonly model: ScriptedModel;
  create(session: string, spec?: Partial<SessionSpec>): Promise<void>;
  /** One turn of these steps: its end and its events. */
  play(session: string, ...steps: unknown[]): Promise<Played>;
  /** The same, with `meanwhile` in place of a user. */
  playWhile(session: string, steps: unknown[], meanwhile: Meanwhile): Promise<Played>;
  /** The same, for any prompt. */
  say(session: string, content: string | readonly ContentPart[], meanwhile?: Meanwhile): Promise<Played>;
  /** Answers the next permission of the turn. */
  permit(session: string, reply: Reply, message?: string): Meanwhile;
  /** One turn of these steps, whose first permission gets this reply. */
  ask(session: string, answer: { reply: Reply; message?: string }, ...steps: unknown[]): Promise<Played>;
  /** Kills the processes of the session's sandbox with these words in their command line, and waits for the end of the agent's. */
  killAgent(session: string, words?: string): Promise<void>;
  expectLawful(session: string): Promise<void>;
  close(): Promise<void>;
}

export type Reply = "once" | "always" | "reject";
export type Meanwhile = (turn: RunningTurn) => Promise<unknown>;

export interface RunningTurn {
  /** Where it begins. */
  readonly after: number;
  /** The first event of the turn that passes the test. */
  until<T extends EventType>(type: T, where?: (event: EventOf<T>) => boolean): Promise<EventOf<T>>;
}

export interface Played {
  readonly end: EventOf<"turn.ended">["data"];
  readonly events: readonly SluiceEvent[];
}

/** The spec of a session that uses the scripted model. */
export type ToSpec = (model: ScriptedModel) => SessionSpec;

/** An MCP server that adds numbers, and returns an image. */
export const SUMS = {
  command: process.execPath,
  args: [join(import.meta.dirname, "fixtures/sums-mcp.mjs")],
};

export async function openBench(
  harness: unknown,
  toSpec: ToSpec,
  options: Parameters<typeof openEngine>[0] = {},
): Promise<AgentBench> {
  const model = await createScriptedModel();
  const test = await openEngine({ harnesses: [harness as Harness], defaultSandbox: "local", ...options });
  const say: AgentBench["say"] = async (session, words, meanwhile) => {
    const content: readonly ContentPart[] =
      typeof words === "string" ? [{ type: "text", text: words }] : words;
    const { turnId, after } = await test.engine.send(session, { content, via: "test" });
    const until: RunningTurn["until"] = (type, where = () => true) =>
      waitFor(test.log, session, type, { after, where, timeoutMs: 60_000 });
    await meanwhile?.({ after, until });
    const { data: end } = await until("turn.ended", (event) => event.data.turn_id === turnId);
    return { end, events: (await readAll(test.log, session)).slice(after) };
  };
  const permit: AgentBench["permit"] =
    (session, reply, message) =>
    async ({ until }) => {
      const { data } = await until("permission.requested");
      const words = message === undefined ? {} : { message };
      await test.engine.resolvePermission(session, data.permission_id, { reply, ...words, by: "somebody" });
    };
  return {
    test,
    model,
    say,
    async create(session, spec = {}) {
      const base = toSpec(model);
      await test.engine.create(session, { ...base, ...spec, env: { ...base.env, ...spec.env } });
    },
    play: (session, ...steps) => say(session, script(...steps)),
    playWhile: (session, steps, meanwhile) => say(session, script(...steps), meanwhile),
    permit,
    ask: (session, { reply, message }, ...steps) =>
      say(session, script(...steps), permit(session, reply, message)),
    async killAgent(session, words = "") {
      const before = await readAll(test.log, session);
      const [boot] = ofType(before, "sandbox.boot");
      for (const pid of await processesWith(boot?.data.sandbox_id ?? "none")) await killIf(pid, words);
      await waitFor(test.log, session, "process.ended", { after: before.length });
    },
    async expectLawful(session) {
      expect(await test.engine.info(session)).toMatchObject({ status: "idle", pendingActions: [] });
      const events = await readAll(test.log, session);
      expectLawful(events);
      expect(ofType(events, "agent.unparsed").map(({ data }) => data.error)).toEqual([]);
    },
    async close() {
      await test.close();
      await model.close();
    },
  };
}

async function killIf(pid: number, words: string): Promise<void> {
  try {
    if ((await readFile(`/proc/${pid}/cmdline`, "utf8")).includes(words)) process.kill(pid, "SIGKILL");
  } catch {
    // It has ended with the others.
  }
}
