import type {
  ContentPart,
  EventOf,
  EventType,
  SessionSpec,
  SluiceEvent,
} from "../../../src/contract/index.ts";
import { opencode } from "../../../src/harness/opencode/harness.ts";
import type { Harness } from "../../../src/harness/port.ts";
import { createScriptedModel, type ScriptedModel } from "../../../src/model/index.ts";
import { openEngine, readAll, script, type TestEngine, waitFor } from "../../support/engine.ts";

/** The real OpenCode, a real engine, and the scripted model behind them. */
export interface OpencodeBench {
  readonly test: TestEngine;
  readonly model: ScriptedModel;
  create(session: string, spec?: Partial<SessionSpec>): Promise<void>;
  /** One turn of these steps: its end, and what it left in the log. */
  play(session: string, ...steps: unknown[]): Promise<Played>;
  /** One turn of these words, while `meanwhile` does what a user would. */
  say(
    session: string,
    content: string | ContentPart[],
    meanwhile?: (turn: RunningTurn) => Promise<void>,
  ): Promise<Played>;
  close(): Promise<void>;
}

export interface RunningTurn {
  /** The first event of the turn that passes the test. */
  until<T extends EventType>(type: T, where?: (event: EventOf<T>) => boolean): Promise<EventOf<T>>;
}

export interface Played {
  readonly end: EventOf<"turn.ended">["data"];
  readonly events: readonly SluiceEvent[];
}

const TIMEOUT_MS = 60_000;

export async function openBench(options: Parameters<typeof openEngine>[0] = {}): Promise<OpencodeBench> {
  const model = await createScriptedModel();
  const test = await openEngine({ harnesses: [opencode as Harness], defaultSandbox: "local", ...options });
  const say: OpencodeBench["say"] = async (session, content, meanwhile) => {
    const parts: ContentPart[] = typeof content === "string" ? [{ type: "text", text: content }] : content;
    const { turnId, after } = await test.engine.send(session, { content: parts, via: "test" });
    const options = { after, timeoutMs: TIMEOUT_MS };
    const until: RunningTurn["until"] = (type, where) =>
      waitFor(test.log, session, type, { ...options, ...(where === undefined ? {} : { where }) });
    await meanwhile?.({ until });
    const { data: end } = await until("turn.ended", (event) => event.data.turn_id === turnId);
    return { end, events: (await readAll(test.log, session)).slice(after) };
  };
  return {
    test,
    model,
    say,
    async create(session, spec = {}) {
      const env = { OPENAI_BASE_URL: `${model.url}/v1`, ...spec.env };
      await test.engine.create(session, { agent: "opencode", model: "scripted", ...spec, env });
    },
    play: (session, ...steps) => say(session, script(...steps)),
    async close() {
      await test.close();
      await model.close();
    },
  };
}

/** The words of the main agent, as every reader sees them at the end. */
export function wordsOf(events: readonly SluiceEvent[], kind: "text" | "reasoning" = "text"): string[] {
  return itemsOf(events)
    .filter(
      ({ data, parent_id: parent }) =>
        data.item.role === "assistant" && data.item.kind === "message" && parent === undefined,
    )
    .flatMap(({ data }) => data.item.content.flatMap((part) => (part.type === kind ? [part.text] : [])));
}

export function callsOf(events: readonly SluiceEvent[]): string[] {
  return itemsOf(events).flatMap(({ data }) =>
    data.item.content.flatMap((part) => (part.type === "tool_call" ? [part.name] : [])),
  );
}

/** Results in the order in which they came: how each ended, and what it says. */
export function resultsOf(
  events: readonly SluiceEvent[],
): { status: string; output: string; rest: ContentPart[] }[] {
  return itemsOf(events).flatMap(({ data }) => {
    const [first, ...rest] = data.item.content;
    return first?.type === "tool_result" ? [{ status: data.item.status, output: first.output, rest }] : [];
  });
}

function itemsOf(events: readonly SluiceEvent[]): EventOf<"item.completed">[] {
  return events.filter((event): event is EventOf<"item.completed"> => event.type === "item.completed");
}
