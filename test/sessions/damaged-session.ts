import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { SessionSpec } from "../../src/contract/index.ts";
import type { Harness } from "../../src/harness/port.ts";
import { harnesses as builtIn } from "../../src/harness/registry.ts";
import {
  ofType,
  openEngine,
  processesWith,
  readAll,
  say,
  script,
  waitFor,
  type TestEngine,
} from "../support/engine.ts";

/** One damaged session: its last healthy moment, and the damage while no server ran. */
export interface Harm {
  readonly name: string;
  readonly spec?: Partial<SessionSpec>;
  /** The steps before the engine is closed; by default a turn that waits for an answer. */
  readonly before?: (test: TestEngine, id: string) => Promise<unknown>;
  readonly harm?: (test: TestEngine, id: string) => Promise<unknown>;
  /** Whether the running turn goes on undisturbed. */
  readonly goesOn?: true;
  /** The status of the next turn; by default completed. */
  readonly next?: "failed";
}

export const ASKED = script({ question: { prompt: "go on?", options: ["yes", "no"] } }, { say: "done" });

export async function ask(test: TestEngine, id: string): Promise<void> {
  await say(test.engine, id, ASKED);
  await waitFor(test.log, id, "turn.waiting");
}

export async function sandbox(test: TestEngine, id: string, ...path: string[]): Promise<string> {
  const [ready] = ofType(await readAll(test.log, id), "sandbox.ready");
  return join(test.folder, "sandboxes", ready?.data.sandbox_id ?? "", ...path);
}

export async function replaceByFolder(path: string): Promise<void> {
  await rm(path, { recursive: true, force: true });
  await mkdir(path);
}

/** Harms each session while no server runs, and tests it with the next one. */
export function describeDamaged(harms: readonly Harm[], harnesses: readonly Harness[] = builtIn): void {
  const idOf = ({ name }: Harm): string =>
    name.replaceAll(/[^a-z]+/gi, "-") + harms.findIndex((harm) => harm.name === name);

  describe("a damaged session", () => {
    let test: TestEngine;

    beforeAll(async () => {
      test = await openEngine({ harnesses, defaultSandbox: "local" });
      await Promise.all(
        harms.map(async (harm) => {
          const id = idOf(harm);
          await test.engine.create(id, { agent: "scripted", ...harm.spec });
          await (harm.before ?? ask)(test, id);
        }),
      );
      await test.engine.close();
      for (const harm of harms) await harm.harm?.(test, idOf(harm));
      await test.restart({ harnesses, defaultSandbox: "local" });
    }, 120_000);

    afterAll(() => test.close());

    it.concurrent.each(harms.map((harm) => [harm.name, harm] as const))(
      "%s: is read, used, ended and deleted",
      async (_, harm) => {
        const id = idOf(harm);
        const { engine, log } = test;
        const listed = (await engine.list({ limit: 1000 })).sessions.map(({ sessionId }) => sessionId);
        expect(listed).toContain(id);
        if (harm.goesOn) await answer(test, id);
        await engine.interrupt(id);
        const { turnId, after } = await say(engine, id, script({ say: "again" }));
        const ended = await waitFor(log, id, "turn.ended", {
          after,
          where: ({ data }) => data.turn_id === turnId,
        });
        const isOdd = harm.next === "failed" || harm.spec?.agent === "throws";
        expect(ended.data.status, JSON.stringify(ended.data.error)).toBe(isOdd ? "failed" : "completed");
        const place = await sandbox(test, id);

        await engine.terminate(id);
        expect((await readAll(log, id)).filter(({ type }) => type === "session.ended")).toHaveLength(1);
        expect((await engine.info(id)).status).toBe("ended");
        expect((await log.find(id))?.active).toBe(false);
        await engine.remove(id);
        expect(await log.find(id)).toBeUndefined();
        expect(await processesWith(place)).toEqual([]);
      },
      60_000,
    );
  });
}

/** The turn that waited before the damage takes the answer and completes. */
async function answer(test: TestEngine, id: string): Promise<void> {
  const asked = await waitFor(test.log, id, "question.requested");
  await test.engine.resolveQuestion(id, asked.data.question_id, { answers: [["yes"]] });
  const ended = await waitFor(test.log, id, "turn.ended", { after: asked.sequence });
  expect(ended.data.status, JSON.stringify(ended.data.error)).toBe("completed");
}
