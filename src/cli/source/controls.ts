import type { SluiceClient } from "../../client/index.ts";
import type { StoredEventText } from "../../dialects/port.ts";
import type { EventLog } from "../../log/port.ts";
import type { Engine } from "../../sessions/port.ts";
import { createFolderSource } from "./folder.ts";
import type { Answer, Controls } from "./port.ts";
import { createServerSource, named } from "./server.ts";

/** Recorded as the client of messages, interrupts and answers. */
const VIA = "cli";

/** Sessions of an engine of this process. `close` ends idle agents, so that no process outlives the command. */
export function createEngineControls(engine: Engine, folder: string): Controls {
  const { where, sessions, follow } = createFolderSource(engine.log, folder);
  return {
    where,
    isServer: false,
    sessions,
    follow,
    info: (session) => engine.info(session),
    create: async (session, spec) => void (await engine.create(session, spec)),
    send: (session, text) => engine.send(session, { content: [{ type: "text", text }], via: VIA }),
    interrupt: (session) => engine.interrupt(session, { by: VIA }),
    terminate: (session) => engine.terminate(session),
    answer: (session, action, answer) => resolve(engine, { session, action }, answer),
    turnStarts: (session, { after }) => readTurnStarts(engine.log, session, after),
    async isEnding(session, { status, stop_reason: reason }) {
      if (reason === "terminated") return true;
      if (status === "completed") return false;
      if (reason === "model_error") return (await engine.log.find(session))?.spec.lasting !== true;
      return (await engine.info(session)).ended;
    },
    async close() {
      await engine.drain({ graceMs: 0 });
      await engine.log.close();
    },
  };
}

async function* readTurnStarts(
  log: EventLog,
  session: string,
  from: number,
): AsyncGenerator<StoredEventText, void> {
  const types = new Set(["turn.started"] as const);
  for (let after = from; ;) {
    const found = await log.read(session, { after, limit: 500, types });
    yield* found;
    const last = found.at(-1);
    if (!last) return;
    after = last.sequence;
  }
}

function resolve(engine: Engine, at: { session: string; action: string }, answer: Answer): Promise<void> {
  const { session, action } = at;
  if (answer.kind === "permission") {
    const { reply, message } = answer;
    const words = message === undefined ? {} : { message };
    return engine.resolvePermission(session, action, { reply, ...words, by: VIA });
  }
  if (answer.kind === "tool") {
    const { output, isError } = answer;
    return engine.resolveTool(session, action, { output, isError, by: VIA });
  }
  const { message } = answer;
  const reply =
    answer.text === undefined ? { rejected: true as const, message } : { answers: [[answer.text]] };
  return engine.resolveQuestion(session, action, { ...reply, by: VIA });
}

/** Sessions of a server. */
export function createServerControls(client: SluiceClient, url: string): Controls {
  const { where, sessions, follow, info } = createServerSource(client, url);
  return {
    where,
    isServer: true,
    sessions,
    follow,
    info,
    create: async (session, spec) => void (await client.sessions.create(session, spec)),
    async send(session, prompt) {
      const { eventCount: after } = await info(session);
      const { turnId } = await named(session, url, client.sendMessage(session, prompt));
      return { turnId, after };
    },
    interrupt: (session) => named(session, url, client.interrupt(session)),
    terminate: (session) => named(session, url, client.terminate(session)),
    answer: (session, action, answer) => named(session, url, reply(client, { session, action }, answer)),
    turnStarts: (session, { after }) =>
      client.events.iterate(session, { after, types: ["turn.started"], extensions: true, limit: 500 }),
    async isEnding(session, { status, stop_reason: reason }) {
      return reason === "terminated" || (status !== "completed" && (await info(session)).ended);
    },
    close: () => Promise.resolve(),
  };
}

function reply(client: SluiceClient, at: { session: string; action: string }, answer: Answer): Promise<void> {
  const { session, action } = at;
  if (answer.kind === "permission") {
    const words = answer.message === undefined ? {} : { message: answer.message };
    return client.replyPermission(session, action, { reply: answer.reply, ...words });
  }
  if (answer.kind === "tool") {
    const { output, isError } = answer;
    return client.replyTool(session, action, { output, isError });
  }
  if (answer.text === undefined) return client.rejectQuestion(session, action, { message: answer.message });
  return client.replyQuestion(session, action, [[answer.text]]);
}
