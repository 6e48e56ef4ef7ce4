import { readdir, truncate } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  ofType,
  openEngine,
  processesWith,
  readAll,
  runTurn,
  say,
  script,
  type TestEngine,
  waitFor,
} from "../support/engine.ts";
import { expectLawful } from "../support/laws.ts";

let test: TestEngine;
beforeEach(async () => {
  test = await openEngine();
  await test.engine.create("s", { agent: "scripted", sandbox: "local" });
});
afterEach(() => test.close());

const spool = (name: string, file: string): string => join(test.folder, "spools", "s", name, file);

const shortenCommand = async (file: string, length: number): Promise<void> => {
  const names = await readdir(join(test.folder, "spools", "s"));
  const name = names.find((one) => one.startsWith("cmd")) ?? "";
  await truncate(spool(name, file), length);
};

/** A shell call of the agent that prints, and then runs until the file `go` exists. */
const waits = { shell: "echo on; until [ -e go ]; do sleep 0.05; done" };

describe("the output of a running process is shortened on disk", () => {
  it.each([0, 20])(
    "to %i bytes: an error ends the turn, and the next message starts the agent again",
    async (length) => {
      const { turnId } = await say(test.engine, "s", script({ say: "before" }, waits));
      await waitFor(test.log, "s", "item.delta", { where: ({ data }) => data.delta === "on\n" });
      await truncate(spool("1", "out"), length);
      const end = await waitFor(test.log, "s", "turn.ended");
      expect(end.data).toMatchObject({ turn_id: turnId, status: "failed", stop_reason: "agent_lost" });
      const errors = ofType(await readAll(test.log, "s"), "error");
      expect(errors.map(({ data }) => data.message)).toEqual([expect.stringMatching(/output was shortened/)]);
      expect((await runTurn(test, "s", script({ say: "after" }))).data.status).toBe("completed");
      const events = await readAll(test.log, "s");
      expectLawful(events);
      expect(ofType(events, "process.ended").map(({ data }) => data)).toMatchObject([
        { process: 1, reason: "lost" },
      ]);
      expect(ofType(events, "process.started")).toHaveLength(2);
    },
  );

  it("while the agent writes: the turn ends, though the missing part may not be noticed", async () => {
    await say(test.engine, "s", script({ flood: { events: 100_000, bytes: 200 } }));
    await waitFor(test.log, "s", "item.delta");
    await truncate(spool("1", "out"), 0);
    await waitFor(test.log, "s", "turn.ended");
    expect((await runTurn(test, "s", script({ say: "after" }))).data.status).toBe("completed");
    expectLawful(await readAll(test.log, "s"));
  });

  it("beside a client's command: the command goes on, and nothing of the agent does", async () => {
    await runTurn(test, "s", script({ say: "ready" }));
    await test.engine.exec("s", { command: "until [ -e go ]; do sleep 0.05; done", background: true });
    const { after } = await say(test.engine, "s", script({ say: "before" }, { sleep: 600_000 }));
    await waitFor(test.log, "s", "item.completed", {
      after,
      where: ({ data }) => data.item.role === "assistant",
    });
    await truncate(spool("1", "out"), 0);
    const end = await waitFor(test.log, "s", "turn.ended", { after });
    expect(end.data).toMatchObject({ stop_reason: "agent_lost" });
    await (await test.engine.files("s")).write("go", Buffer.from(""));
    const ended = await waitFor(test.log, "s", "command.ended");
    expect(ended.data).toMatchObject({ status: "completed" });
    await expect.poll(() => processesWith(test.folder), { timeout: 15_000 }).toEqual([]);
  });

  it("while no turn runs: the next message starts the agent again", async () => {
    await runTurn(test, "s", script({ say: "before" }));
    await truncate(spool("1", "out"), 0);
    await waitFor(test.log, "s", "process.ended");
    expect((await runTurn(test, "s", script({ say: "after" }))).data.status).toBe("completed");
    expectLawful(await readAll(test.log, "s"));
  });

  it.each(["out", "err"])("%s of a command: the command ends, and another can run", async (file) => {
    await test.engine.exec("s", { command: "echo on; echo on >&2; sleep 600" });
    const isOf = file === "out" ? "stdout" : "stderr";
    await waitFor(test.log, "s", "command.output", { where: ({ data }) => data.stream === isOf });
    await shortenCommand(file, 1);
    const { data } = await waitFor(test.log, "s", "command.ended");
    expect(data).toMatchObject({ status: "failed", reason: "lost" });
    const { after } = await test.engine.exec("s", { command: "true" });
    const next = await waitFor(test.log, "s", "command.ended", { after });
    expect(next.data.status).toBe("completed");
  });
});
