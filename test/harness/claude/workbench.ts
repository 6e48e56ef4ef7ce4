import type { ContentPart, EventOf, SessionSpec, SluiceEvent } from "../../../src/contract/index.ts";
import { claude } from "../../../src/harness/claude/harness.ts";
import type { Harness } from "../../../src/harness/port.ts";
import { createScriptedModel, type ScriptedModel } from "../../../src/model/index.ts";
import { openEngine, readAll, script, type TestEngine, waitFor } from "../../support/engine.ts";

/** The real Claude Code, a real engine, and the scripted model behind them. */
export interface ClaudeBench {
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
  close(): Promise<void>;
}

export interface Played {
  readonly end: EventOf<"turn.ended">["data"];
  readonly events: readonly SluiceEvent[];
}

export const KEY = "sk-ant-test-0123456789abcdefghij";

export async function openBench(options: Parameters<typeof openEngine>[0] = {}): Promise<ClaudeBench> {
  const model = await createScriptedModel();
  const test = await openEngine({ harnesses: [claude as Harness], defaultSandbox: "local", ...options });
  const tellWhile = async (
    session: string,
    content: readonly ContentPart[],
    meanwhile: (after: number) => Promise<unknown>,
  ): Promise<Played> => {
    const { turnId, after } = await test.engine.send(session, { content, via: "test" });
    await meanwhile(after);
    const where = (event: EventOf<"turn.ended">): boolean => event.data.turn_id === turnId;
    const { data: end } = await waitFor(test.log, session, "turn.ended", { after, where });
    return { end, events: (await readAll(test.log, session)).slice(after) };
  };
  const playWhile: ClaudeBench["playWhile"] = (session, steps, meanwhile) =>
    tellWhile(session, [{ type: "text", text: script(...steps) }], meanwhile);
  return {
    test,
    model,
    async create(session, spec = {}) {
      const env = { ANTHROPIC_BASE_URL: model.url, ANTHROPIC_API_KEY: KEY, ...spec.env };
      await test.engine.create(session, { agent: "claude", model: "claude-sonnet-4-5", ...spec, env });
    },
    play: (session, ...steps) => playWhile(session, steps, async () => {}),
    playWhile,
    tell: (session, ...content) => tellWhile(session, content, async () => {}),
    async close() {
      await test.close();
      await model.close();
    },
  };
}
