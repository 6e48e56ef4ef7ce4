import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, describe, it } from "vitest";
import type { Harness } from "../../src/harness/port.ts";
import type { Limits } from "../../src/sessions/deps.ts";
import {
  ofType,
  openEngine,
  processesWith,
  readAll,
  runTurn,
  say,
  type TestEngine,
  waitFor,
} from "../support/engine.ts";
import { assistantTexts, expectLawful, expectTurnsEnd } from "../support/laws.ts";
import { shAgent, shellAgent } from "./shell-agent.ts";

let test: TestEngine;
afterEach(async () => {
  await test.close();
  expect(await processesWith(test.folder), "left behind").toEqual([]);
});

const open = async (harness: Harness, limits: Partial<Limits> = {}): Promise<void> => {
  test = await openEngine({ harnesses: [harness], limits: { interruptMs: 200, gentleMs: 200, ...limits } });
  await test.engine.create("s", { agent: "shell" });
};

describe("an agent's program", () => {
  it("that is missing fails its turn with the reason; once it is back, the session goes on", async () => {
    const folder = await mkdtemp(join(tmpdir(), "sluice-agent-"));
    const program = join(folder, "agent");
    await open(shellAgent([program]));
    const end = await runTurn(test, "s", "hello?");
    expect(end.data).toMatchObject({
      status: "failed",
      error: { message: expect.stringContaining(program) },
    });
    const events = await readAll(test.log, "s");
    expectLawful(events);
    expect(ofType(events, "error")[0]?.data.message).toMatch(/not found.*Install it/);
    expect((await test.engine.info("s")).ended).toBe(false);

    await writeFile(program, "#!/bin/sh\nwhile read -r line; do echo here; echo end; done\n");
    await chmod(program, 0o755);
    expect((await runTurn(test, "s", "and now?")).data.status).toBe("completed");
    expect(assistantTexts(await readAll(test.log, "s"))).toEqual(["here"]);
    await rm(folder, { recursive: true });
  });

  it("that vanishes between two turns fails the next one, and only that", async () => {
    const folder = await mkdtemp(join(tmpdir(), "sluice-agent-"));
    const program = join(folder, "agent");
    const put = async (): Promise<void> => {
      await writeFile(program, "#!/bin/sh\nread -r line; echo here; echo end\n");
      await chmod(program, 0o755);
    };
    await put();
    await open(shellAgent([program]));
    await runTurn(test, "s", "one");
    // It has printed everything, and exits by itself.
    await waitFor(test.log, "s", "process.ended");
    await rm(program);
    expect((await runTurn(test, "s", "two")).data.status).toBe("failed");
    await put();
    expect((await runTurn(test, "s", "three")).data.status).toBe("completed");
    expectLawful(await readAll(test.log, "s"));
    await rm(folder, { recursive: true });
  });

  it("that cannot be executed ends its turn with the system's error", async () => {
    const folder = await mkdtemp(join(tmpdir(), "sluice-agent-"));
    const program = join(folder, "agent");
    await writeFile(program, "#!/no/such/interpreter\n");
    await chmod(program, 0o755);
    await open(shellAgent([program]));
    expect((await runTurn(test, "s", "hello?")).data.status).toBe("failed");
    await waitFor(test.log, "s", "session.ended");
    const events = await readAll(test.log, "s");
    expectLawful(events);
    expect(events.at(-1)?.data).toMatchObject({ reason: "error", exit_code: expect.any(Number) });
    expect(ofType(events, "session.ended")[0]?.data.stderr?.head).toContain(program);
    await rm(folder, { recursive: true });
  });
});

describe("an agent that will not stop", () => {
  it("has no command for an interrupt, ignores SIGINT and SIGTERM, and so do its children: it is killed", async () => {
    await open(
      shAgent(
        `trap '' INT TERM HUP; while read -r line; do echo on; sh -c "trap '' INT TERM; while :; do sleep 1; done"; done`,
      ),
    );
    const { after } = await say(test.engine, "s", "go");
    await waitFor(test.log, "s", "item.completed", {
      after,
      where: (event) => event.data.item.role === "assistant",
    });
    const { turnId } = await test.engine.interrupt("s");
    const end = await waitFor(test.log, "s", "turn.ended");
    expect(end.data).toMatchObject({ turn_id: turnId, status: "interrupted", stop_reason: "interrupted" });
    expect(await test.engine.info("s")).toMatchObject({ ended: false, turnId: null });
    // The next message starts it anew.
    const again = await say(test.engine, "s", "again");
    await waitFor(test.log, "s", "item.completed", {
      after: again.after,
      where: (event) => event.data.item.role === "assistant",
    });
    await test.engine.terminate("s");
    expectLawful(await readAll(test.log, "s"));
  });

  it("closes its stdout and keeps running: the turn's limit ends it, and the session goes on", async () => {
    await open(shAgent("read -r line; echo last words; exec >&- 2>&-; sleep 1000"), { turnTimeoutMs: 500 });
    const end = await runTurn(test, "s", "go");
    expect(end.data).toMatchObject({ status: "failed", stop_reason: "timeout" });
    const events = await readAll(test.log, "s");
    expectLawful(events);
    expect(assistantTexts(events)).toEqual(["last words"]);
    expect((await test.engine.info("s")).ended).toBe(false);
  });

  it("closes its stdin: undeliverable input does not block the session", async () => {
    await open(shAgent("read -r line; exec <&-; echo deaf; echo end; sleep 1000"), { turnTimeoutMs: 1000 });
    expect((await runTurn(test, "s", "one")).data.status).toBe("completed");
    const { turnId } = await say(test.engine, "s", "two ".repeat(100_000));
    const end = await waitFor(test.log, "s", "turn.ended", {
      where: (event) => event.data.turn_id === turnId,
    });
    expect(end.data.stop_reason).toBe("timeout");
    expectLawful(await readAll(test.log, "s"));
  });
});

describe("an agent that leaves others behind", () => {
  it("forks a daemon and exits in mid-turn: the turn ends with the agent, the daemon with it", async () => {
    await open(
      shAgent(
        "read -r line; echo forking; setsid sleep 1000 & (setsid sh -c 'while :; do echo ghost; sleep 0.05; done' &) ; exit 0",
      ),
    );
    expect((await runTurn(test, "s", "go")).data).toMatchObject({
      status: "failed",
      stop_reason: "agent_exited",
    });
    const ended = await waitFor(test.log, "s", "session.ended");
    expect(ended.data).toMatchObject({ reason: "error", exit_code: 0 });
    await expect.poll(() => processesWith(test.folder)).toEqual([]);
    const events = await readAll(test.log, "s");
    expectLawful(events);
    expect(events.at(-1)?.sequence, "no ghost speaks behind the end").toBe(ended.sequence);
  });

  it("forks a daemon, ends its turn and exits: the session goes on, the daemon does not", async () => {
    await open(shAgent("read -r line; setsid sleep 1000 & echo done; echo end; exit 0"));
    expect((await runTurn(test, "s", "one")).data.status).toBe("completed");
    await waitFor(test.log, "s", "process.ended");
    await expect.poll(() => processesWith(test.folder)).toEqual([]);
    expect((await runTurn(test, "s", "two")).data.status).toBe("completed");
    const events = await readAll(test.log, "s");
    expectLawful(events);
    expect(ofType(events, "process.started")).toHaveLength(2);
  });
});

describe("an agent that prints too much", () => {
  it("on stdout is stopped at its limit, with the reason, and its turn and session end", async () => {
    const line = "x".repeat(999);
    await open(
      shAgent(`read -r l; i=0; while [ $i -lt 4000 ]; do echo ${line}; i=$((i+1)); done; sleep 1000`),
      {
        maxOutputBytes: 1_000_000,
      },
    );
    const end = await runTurn(test, "s", "go");
    expect(end.data.status).not.toBe("completed");
    const events = await readAll(test.log, "s");
    const said = ofType(events, "error").find((event) => event.data.code === "too_large");
    expect(said?.data.message).toContain("1000000 bytes");
    expectTurnsEnd(events);
  });

  it("on stderr is stopped at its limit too", async () => {
    const line = "x".repeat(999);
    await open(
      shAgent(
        `read -r l; i=0; while [ $i -lt 4000 ]; do echo ${line} >&2; i=$((i+1)); done; echo loud; sleep 1000`,
      ),
      { maxOutputBytes: 1_000_000, turnTimeoutMs: 1_500 },
    );
    await runTurn(test, "s", "go");
    const events = await readAll(test.log, "s");
    expect(ofType(events, "error").map((event) => event.data.code)).toContain("too_large");
  });
});

describe("messages that were accepted for an agent that then died", () => {
  it("end their streams with the session", async () => {
    await open(shAgent("read -r l; sleep 0.3; exit 4"));
    const sent = [await say(test.engine, "s", "one"), await say(test.engine, "s", "two")];
    await waitFor(test.log, "s", "session.ended");
    const events = await readAll(test.log, "s");
    expectLawful(events);
    expect(events.at(-1)?.type).toBe("session.ended");
    expect(ofType(events, "turn.ended")[0]?.data.turn_id).toBe(sent[0]?.turnId);
  });

  it("each get the end of the turn that they were accepted for", async () => {
    await open(shAgent("read -r l; sleep 0.3; exit 4"));
    const sent = await Promise.all(["one", "two", "three"].map((text) => say(test.engine, "s", text)));
    await waitFor(test.log, "s", "session.ended");
    const ended = ofType(await readAll(test.log, "s"), "turn.ended").map((event) => event.data.turn_id);
    expect(ended.toSorted()).toEqual(sent.map(({ turnId }) => turnId).toSorted());
  });

  it("are not lost by an agent that serves one turn per process and ends with 0", async () => {
    await open({ ...shAgent("read -r l; echo here; echo end; exit 0"), oneShot: true });
    const sent = await Promise.all(["one", "two", "three"].map((text) => say(test.engine, "s", text)));
    const ends = await Promise.all(
      sent.map(({ turnId }) =>
        waitFor(test.log, "s", "turn.ended", {
          where: (event) => event.data.turn_id === turnId,
          timeoutMs: 20_000,
        }),
      ),
    );
    expect(ends.map((event) => event.data.status)).toEqual(["completed", "completed", "completed"]);
  });
});
