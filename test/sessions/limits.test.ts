import { afterEach, beforeEach, expect, it } from "vitest";
import { shAgent } from "../faults/shell-agent.ts";
import { expectLawful } from "../support/laws.ts";
import {
  ofType,
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

const OUT_OF_DISK = /out of disk: limit 50 MB/;
const fill = (files: number): string =>
  `for i in $(seq ${files}); do head -c 20000000 /dev/zero > big$i; done; sleep 600`;

it("a turn over the disk limit ends with the limit in its error, and the agent may free space", async () => {
  await test.engine.create("s", { ...SCRIPTED, limits: { diskBytes: 50 * 1024 * 1024 } });
  const ended = await runTurn(test, "s", script({ shell: fill(4) }));
  expect(ended.data).toMatchObject({
    status: "failed",
    error: { code: "agent_process_exited", message: expect.stringMatching(OUT_OF_DISK) },
  });
  expect((await runTurn(test, "s", script({ shell: "rm big*" }))).data.status).toBe("completed");
  // Between turns there is no turn to tell the reason. Eight files are more than the limit and what it tolerates.
  await runTurn(test, "s", script({ shell: `(${fill(8)}) > /dev/null 2>&1 &` }));
  await waitFor(test.log, "s", "process.ended", { where: ({ data }) => data.process === 2 });
  const events = await readAll(test.log, "s");
  expectLawful(events);
  expect(ofType(events, "error").map(({ data }) => data.message)).toEqual([
    expect.stringMatching(OUT_OF_DISK),
  ]);
});

it("an agent's stdout counts for the disk limit", async () => {
  const printing = shAgent("read -r prompt; head -c 1000000000 /dev/zero; sleep 600");
  await test.restart({ harnesses: [printing] });
  await test.engine.create("s", { agent: "shell", limits: { diskBytes: 50 * 1024 * 1024 } });
  const ended = await runTurn(test, "s", "print");
  expect(ended.data).toMatchObject({
    status: "failed",
    error: { message: expect.stringMatching(OUT_OF_DISK) },
  });
});
