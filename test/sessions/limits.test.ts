import { afterEach, beforeEach, expect, it } from "vitest";
import { expectLawful } from "../support/laws.ts";
import {
  openEngine,
  readAll,
  runTurn,
  say,
  script,
  SCRIPTED,
  waitFor,
  type TestEngine,
} from "../support/engine.ts";

let test: TestEngine;
beforeEach(async () => {
  test = await openEngine();
});
afterEach(() => test.close());

it("a session over its memory limit ends with a clear reason, and the others go on", async () => {
  await test.engine.create("hog", { ...SCRIPTED, limits: { memoryBytes: 300 * 1024 * 1024 } });
  await test.engine.create("other", SCRIPTED);
  const hog = "const all = []; for (;;) all.push(Buffer.alloc(16 << 20, 1));";
  await say(test.engine, "hog", script({ shell: `'${process.execPath}' -e '${hog}'` }, { say: "survived" }));
  const ended = await waitFor(test.log, "hog", "turn.ended");
  const events = await readAll(test.log, "hog");
  // The kernel kills the hog or its agent; in both cases an event says why.
  const said = JSON.stringify(events);
  expect(
    ended.data.status === "completed" ? /137|SIGKILL|Killed/.test(said) : /out of memory/.test(said),
  ).toBe(true);
  if (ended.data.status !== "completed") await waitFor(test.log, "hog", "session.ended");
  expectLawful(await readAll(test.log, "hog"));
  expect((await runTurn(test, "other", script({ say: "unharmed" }))).data.status).toBe("completed");
});
