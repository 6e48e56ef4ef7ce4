import type { ContentPart, EventOf, Item, SessionSpec, SluiceEvent } from "../../../src/contract/index.ts";
import type { Harness } from "../../../src/harness/port.ts";
import { createScriptedModel, type ScriptedModel } from "../../../src/model/index.ts";
import { ofType, openEngine, readAll, script, type TestEngine, waitFor } from "../../support/engine.ts";
import { expectLawful } from "../../support/laws.ts";

/** A real agent, a real engine, and the scripted model behind them. */
export interface AgentBench {
  readonly test: TestEngine;
  readonly model: ScriptedModel;
  create(session: string, spec?: Partial<SessionSpec>): Promise<void>;
  /** One turn of these steps: its end, and what it left in the log. */
  play(session: string, ...steps: unknown[]): Promise<Played>;
  /** The same, while `meanwhile` does what a user would; it is told where the turn begins. */
  playWhile(
    session: string,
    steps: unknown[],
    meanwhile: (after: number) => Promise<unknown>,
  ): Promise<Played>;
  /** The same, for words that are no script. */
  tell(session: string, ...content: ContentPart[]): Promise<Played>;
  /** Answers the next permission of the turn. */
  permit(
    session: string,
    reply: "once" | "always" | "reject",
    message?: string,
  ): (after: number) => Promise<void>;
  expectLawful(session: string): Promise<void>;
  close(): Promise<void>;
}

export interface Played {
  readonly end: EventOf<"turn.ended">["data"];
  readonly events: readonly SluiceEvent[];
}

/** What makes an agent ask the scripted model, and no other. */
export type ToSpec = (model: ScriptedModel) => SessionSpec;

export async function openBench(
  harness: unknown,
  toSpec: ToSpec,
  options: Parameters<typeof openEngine>[0] = {},
): Promise<AgentBench> {
  const model = await createScriptedModel();
  const test = await openEngine({ harnesses: [harness as Harness], defaultSandbox: "local", ...options });
  const tellWhile = async (
    session: string,
    content: readonly ContentPart[],
    meanwhile: (after: number) => Promise<unknown>,
  ): Promise<Played> => {
    const { turnId, after } = await test.engine.send(session, { content, via: "test" });
    await meanwhile(after);
    const where = (event: EventOf<"turn.ended">): boolean => event.data.turn_id === turnId;
    const { data: end } = await waitFor(test.log, session, "turn.ended", { after, where, timeoutMs: 60_000 });
    return { end, events: (await readAll(test.log, session)).slice(after) };
  };
  const playWhile: AgentBench["playWhile"] = (session, steps, meanwhile) =>
    tellWhile(session, [{ type: "text", text: script(...steps) }], meanwhile);
  return {
    test,
    model,
    async create(session, spec = {}) {
      const base = toSpec(model);
      await test.engine.create(session, { ...base, ...spec, env: { ...base.env, ...spec.env } });
    },
    play: (session, ...steps) => playWhile(session, steps, async () => {}),
    playWhile,
    tell: (session, ...content) => tellWhile(session, content, async () => {}),
    permit: (session, reply, message) => async (after) => {
      const { data } = await waitFor(test.log, session, "permission.requested", { after });
      const words = message === undefined ? {} : { message };
      await test.engine.resolvePermission(session, data.permission_id, { reply, ...words, by: "somebody" });
    },
    async expectLawful(session) {
      const events = await readAll(test.log, session);
      expectLawful(events);
      const unparsed = ofType(events, "agent.unparsed").map(({ data }) => data.error);
      if (unparsed.length > 0) throw new Error(`unparsed: ${unparsed.join("; ")}`);
    },
    async close() {
      await test.close();
      await model.close();
    },
  };
}

export function resultsOf(events: readonly SluiceEvent[]): Item[] {
  return ofType(events, "item.completed")
    .map((event) => event.data.item)
    .filter((item) => item.kind === "tool_result");
}

export function callsOf(events: readonly SluiceEvent[]): { name: string; input: unknown }[] {
  return ofType(events, "item.completed").flatMap((event) =>
    event.data.item.content.flatMap((part) =>
      part.type === "tool_call" ? [{ name: part.name, input: JSON.parse(part.arguments) }] : [],
    ),
  );
}

export function isCall(event: EventOf<"item.completed">): boolean {
  return event.data.item.kind === "tool_call";
}

/** A picture that is large enough for every model: 32 by 32 of one colour. */
export const PICTURE =
  "iVBORw0KGgoAAAANSUhEUgAAACAAAAAgCAIAAAD8GO2jAAAAKElEQVR4nO3NsQ0AAAzCMP5/un0CNkuZ41wybXsHAAAAAAAAAAAAxR4yw/wuPL6QkAAAAABJRU5ErkJggg==";
