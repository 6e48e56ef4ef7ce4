import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { EventOf } from "../../../src/contract/index.ts";
import { startServer, type TestServer } from "../../support/server.ts";
import { offences } from "./page.ts";
import { awaitEnd, create, ofType, post, readEvents, runTurn, send } from "./transcript.ts";

describe("seed 004, Session Lifecycle", () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await startServer();
  });
  afterAll(() => server.close());

  const endOf = async (id: string, ...steps: unknown[]): Promise<EventOf<"session.ended">> => {
    await create(server, id);
    await send(server, id, ...steps);
    const events = await awaitEnd(server, id);
    const last = events.at(-1);
    if (last?.type !== "session.ended") throw new Error(`the stream ended with ${last?.type}`);
    expect(offences(last)).toEqual([]);
    expect(ofType(events, "session.ended")).toHaveLength(1);
    return last;
  };

  it("session.started: the first event, once, over turns and processes", async () => {
    await create(server, "started", { model: "m" });
    await runTurn(server, "started", { say: "one" });
    await server.stop();
    await server.start();
    await runTurn(server, "started", { say: "two" });
    const events = await readEvents(server, "started", "&extensions=true");
    expect(events[0]).toMatchObject({ type: "session.started", sequence: 1, synthetic: true });
    expect(ofType(events, "session.started")).toHaveLength(1);
    expect(ofType(events, "process.started")).toHaveLength(2);
    expect(ofType(events, "session.ended")).toHaveLength(0);
  });

  it("reason error, terminated_by agent: message and exit_code are there, no stderr where none was written", async () => {
    const { data } = await endOf("exited", { exit: 3 });
    expect(data).toMatchObject({ reason: "error", terminated_by: "agent", exit_code: 3 });
    expect(data.message).toContain("3");
    expect(data).not.toHaveProperty("stderr");
  });

  it("reason error after a signal: the exit code is the shell's", async () => {
    const { data } = await endOf("signalled", { signal: "SIGKILL" });
    expect(data).toMatchObject({ reason: "error", terminated_by: "agent", exit_code: 137 });
    expect(data.message).toContain("SIGKILL");
  });

  it("reason error, terminated_by daemon: a model failure that no retry can heal", async () => {
    const { data } = await endOf("model", { fail: { kind: "terminal", times: 1 } });
    expect(data).toMatchObject({ reason: "error", terminated_by: "daemon" });
    expect(data.message?.length).toBeGreaterThan(5);
  });

  it("reason terminated, by the daemon: message, exit_code and stderr are only present when reason is error", async () => {
    await create(server, "terminated");
    await send(server, "terminated", { stderr: "some words" }, { shell: "echo on; sleep 100" });
    expect((await post(server, "terminated/terminate")).status).toBe(204);
    const last = (await awaitEnd(server, "terminated")).at(-1);
    expect(last?.data).toEqual({ reason: "terminated", terminated_by: "daemon" });
  });

  it("a session that was terminated before it ever ran starts and ends too", async () => {
    await create(server, "unused");
    expect((await post(server, "unused/terminate")).status).toBe(204);
    const events = await awaitEnd(server, "unused");
    expect(events.map((event) => event.type)).toEqual(["session.started", "session.ended"]);
  });

  it.each([1, 5, 20, 69, 70])(
    "StderrOutput of %i lines: head is all of it, no tail, not truncated",
    async (count) => {
      const lines = numbered(count);
      const { data } = await endOf(`err-${count}`, { stderr: lines.join("\n") }, { exit: 1 });
      expect(data.stderr).toEqual({ head: lines.join("\n"), truncated: false, total_lines: count });
    },
  );

  it.each([71, 500])(
    "StderrOutput of %i lines: the first 20, the last 50, truncated, the total",
    async (count) => {
      const lines = numbered(count);
      const { data } = await endOf(`err-${count}`, { stderr: lines.join("\n") }, { exit: 1 });
      expect(data.stderr).toEqual({
        head: lines.slice(0, 20).join("\n"),
        tail: lines.slice(-50).join("\n"),
        truncated: true,
        total_lines: count,
      });
    },
  );

  it("a last line of stderr without its newline counts, and so do empty ones", async () => {
    await create(server, "err-odd");
    // The stderr of a shell step is its output; only the agent's process can leave an unfinished line.
    await send(server, "err-odd", { stderr: "a\n\nb\n" }, { exit: 1 });
    const last = (await awaitEnd(server, "err-odd")).at(-1) as EventOf<"session.ended">;
    expect(last.data.stderr).toEqual({ head: "a\n\nb", truncated: false, total_lines: 3 });
  });
});

function numbered(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `line ${index + 1} of ${count}`);
}
