import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { EventOf } from "../../src/contract/index.ts";
import { createRedactor, RedactedStream } from "../../src/sessions/secrets/redact.ts";
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
import { expectLawful } from "../support/laws.ts";

let test: TestEngine;
beforeEach(async () => {
  test = await openEngine({ defaultSandbox: "local" });
});
afterEach(() => test.close());

const outputOf = async (session: string, stream: "stdout" | "stderr"): Promise<string> =>
  ofType(await readAll(test.log, session), "command.output")
    .filter(({ data }) => data.stream === stream)
    .map(({ data }) => data.text)
    .join("");

const tellable = (): RedactedStream =>
  new RedactedStream({
    redactor: createRedactor(new Map([["KEY", "secret-value"]])),
    offset: 0,
  });

const ended = (session: string, commandId: string): Promise<EventOf<"command.ended">> =>
  waitFor(test.log, session, "command.ended", { where: ({ data }) => data.command_id === commandId });

describe("a command", () => {
  it("has events for its start, its output and its end", async () => {
    await test.engine.create("s", { agent: "scripted" });
    const { commandId, after } = await test.engine.exec("s", { command: "echo out; echo err >&2; exit 7" });
    expect(await ended("s", commandId)).toMatchObject({
      data: { status: "failed", exit_code: 7, reason: "exited" },
    });
    expect(await outputOf("s", "stdout")).toBe("out\n");
    expect(await outputOf("s", "stderr")).toBe("err\n");
    const events = await readAll(test.log, "s");
    expect(events[0]?.type).toBe("session.started");
    expect(events[after]?.type).toBe("command.started");
    expectLawful(events);
  });

  it("prints a lot, in order, in pieces that stay in the log", async () => {
    await test.engine.create("s", { agent: "scripted" });
    const { commandId } = await test.engine.exec("s", { command: "seq 1 60000" });
    expect((await ended("s", commandId)).data.status).toBe("completed");
    const wanted = `${Array.from({ length: 60_000 }, (_, n) => n + 1).join("\n")}\n`;
    expect((await outputOf("s", "stdout")) === wanted).toBe(true);
  });

  it("goes on without an engine, and the next one reports it to its end", async () => {
    await test.engine.create("s", { agent: "scripted" });
    const command = "echo one; until [ -e go ]; do sleep 0.02; done; echo two; exit 5";
    const { commandId } = await test.engine.exec("s", { command });
    await waitFor(test.log, "s", "command.output");
    await test.restart();
    const files = await test.engine.files("s");
    await files.write("go", "");
    expect(await ended("s", commandId)).toMatchObject({ data: { exit_code: 5, reason: "exited" } });
    expect(await outputOf("s", "stdout")).toBe("one\ntwo\n");
    expectLawful(await readAll(test.log, "s"));
  });

  it("runs alone, beside no turn; a message with the delivery alone is refused beside it", async () => {
    await test.engine.create("s", { agent: "scripted" });
    const busy = { code: "session_busy" };
    const { commandId } = await test.engine.exec("s", { command: "sleep 60" });
    await expect(test.engine.exec("s", { command: "true" })).rejects.toMatchObject(busy);
    const content = [{ type: "text" as const, text: "x" }];
    await expect(test.engine.send("s", { content, via: "test", delivery: "alone" })).rejects.toMatchObject(
      busy,
    );
    await expect(test.engine.checkpoint("s")).rejects.toMatchObject(busy);
    expect(await test.engine.interrupt("s")).toEqual({ commandId });
    expect((await ended("s", commandId)).data.status).toBe("interrupted");
    expect(await test.engine.interrupt("s")).toEqual({});
    const { turnId } = await say(test.engine, "s", script({ sleep: 60_000 }));
    await waitFor(test.log, "s", "turn.started");
    await expect(test.engine.exec("s", { command: "true" })).rejects.toMatchObject(busy);
    expect(await test.engine.interrupt("s")).toEqual({ turnId });
  });

  it("ends with the session, with all its children; `destroy` removes the sandbox too", async () => {
    await test.engine.create("s", { agent: "scripted" });
    const marker = `marker-${process.pid}-${Date.now()}`;
    const stubborn = `trap '' INT TERM; while :; do sleep 1; done; : ${marker}`;
    const command = `setsid sh -c "${stubborn}" & ${stubborn}`;
    const { commandId } = await test.engine.exec("s", { command });
    while ((await processesWith(marker)).length < 2) await new Promise((resolve) => setTimeout(resolve, 20));
    await test.engine.terminate("s", { destroy: true });
    expect((await ended("s", commandId)).data).toMatchObject({ status: "interrupted", reason: "terminated" });
    expect(await processesWith(marker)).toEqual([]);
    const events = await readAll(test.log, "s");
    expect(events.slice(-2).map(({ type }) => type)).toEqual(["sandbox.killed", "session.ended"]);
    await expect(test.engine.files("s")).rejects.toMatchObject({ code: "session_ended" });
  });

  it("keeps an idle agent alive, and survives the end of the agent", async () => {
    await test.engine.create("s", { agent: "scripted" });
    await say(test.engine, "s", script({ say: "x" }));
    await waitFor(test.log, "s", "turn.ended");
    const { commandId } = await test.engine.exec("s", { command: "until [ -e go ]; do sleep 0.02; done" });
    await expect(test.engine.update("s", { settings: { model: "other" } })).rejects.toMatchObject({
      code: "session_busy",
    });
    await (await test.engine.files("s")).write("go", "");
    expect((await ended("s", commandId)).data.status).toBe("completed");
  });
});

describe("a redacted stream", () => {
  it("has whole characters, and no part of a secret, for every cut", () => {
    const bytes = Buffer.from("a é 漢 🦆 secret-value secret-valu! sec");
    const wanted = "a é 漢 🦆 [redacted:KEY] secret-valu! sec";
    for (let size = 1; size <= bytes.length; size += 1) {
      const stream = tellable();
      const pieces: { text: string; offset: number }[] = [];
      for (let at = 0; at < bytes.length; at += size)
        pieces.push(...stream.take(bytes.subarray(at, at + size), { isLast: false }));
      pieces.push(...stream.take(new Uint8Array(), { isLast: true }));
      expect(pieces.map(({ text }) => text).join("")).toBe(wanted);
      expect(pieces.at(-1)?.offset).toBe(bytes.length);
      for (const { text } of pieces) expect(text).not.toContain("\uFFFD");
    }
  });
});
