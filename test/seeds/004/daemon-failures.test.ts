import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startServer, type TestServer } from "../../support/server.ts";
import { readFrames } from "../../support/sse.ts";
import { awaitTurn, create, ofType, post, readEvents, runTurn, send } from "./transcript.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.close());

describe("where the peer's daemon failed", () => {
  it("one agent process serves a conversation, however many messages come at once", async () => {
    await create(server, "one");
    const turns = await Promise.all(
      Array.from({ length: 8 }, (_, index) => send(server, "one", { shell: `echo ${index} $PPID` })),
    );
    for (const turn of turns) await awaitTurn(server, "one", turn);
    const events = await readEvents(server, "one", "&extensions=true");
    expect(ofType(events, "process.started")).toHaveLength(1);
    const outputs = ofType(events, "item.completed").flatMap(({ data }) =>
      data.item.content.flatMap((part) =>
        part.type === "tool_result" ? [part.output.trim().split(" ")] : [],
      ),
    );
    expect(new Set(outputs.map(([, pid]) => pid)).size).toBe(1);
    // In the order of acceptance.
    const accepted = ofType(events, "input.accepted").map((event) => event.data.turn_id);
    expect(ofType(events, "turn.ended").map((event) => event.data.turn_id)).toEqual(accepted);
  });

  it("`directory` is where the agent works", async () => {
    const folder = await mkdtemp(join(tmpdir(), "sluice-work-"));
    await writeFile(join(folder, "here.txt"), "found");
    await create(server, "directory", { directory: folder });
    const events = await runTurn(
      server,
      "directory",
      { read: "here.txt" },
      { write: { path: "new.txt", content: "n" } },
    );
    expect(JSON.stringify(events)).toContain('"output":"found"');
    expect(await readFile(join(folder, "new.txt"), "utf8")).toBe("n");
    await server.fetch("/v1/sessions/directory", { method: "DELETE" });
    expect(await readFile(join(folder, "new.txt"), "utf8"), "a folder that was given is never removed").toBe(
      "n",
    );
    await rm(folder, { recursive: true });
  });

  it("a `directory` that is not there is refused; one that is gone by then is said, and the sender gets an end", async () => {
    const refused = await post(server, "nowhere", { agent: "scripted", directory: "/no/such/folder" });
    expect(refused.status).toBe(400);
    const folder = await mkdtemp(join(tmpdir(), "sluice-gone-"));
    await create(server, "nowhere", { directory: folder });
    await rm(folder, { recursive: true });
    const events = await runTurn(server, "nowhere", { say: "x" });
    expect(ofType(events, "turn.ended")[0]?.data.status).toBe("failed");
    expect(ofType(events, "error")[0]?.data.message).toContain(folder);
  });

  it("creating the same id many times at once makes one session", async () => {
    const made = await Promise.all(
      Array.from({ length: 12 }, () => post(server, "race", { agent: "scripted" })),
    );
    expect(made.map((response) => response.status).toSorted()).toEqual([200, ...Array<number>(11).fill(409)]);
  });

  it("no event follows session.ended", async () => {
    await create(server, "silent");
    await send(server, "silent", { shell: "while true; do echo noise; sleep 0.01; done" });
    await readFrames(server, "silent", { after: 0, until: ({ data }) => data.includes("noise") });
    await post(server, "silent/terminate");
    const { length } = await readEvents(server, "silent", "&extensions=true");
    await new Promise((resolve) => setTimeout(resolve, 200));
    const events = await readEvents(server, "silent", "&extensions=true");
    expect(events).toHaveLength(length);
    expect(events.at(-1)?.type).toBe("session.ended");
  });

  it("a slow reader that lags thousands behind loses nothing", async () => {
    await create(server, "lag");
    const slow = await server.fetch("/v1/sessions/lag/events/sse?extensions=true");
    await runTurn(server, "lag", { flood: { events: 20_000, bytes: 100 } });
    // The session has ended, so the stream ends; no byte was read so far.
    await post(server, "lag/terminate");
    const text = await slow.text();
    const ids = [...text.matchAll(/^id: (\d+)$/gm)].map(([, id]) => Number(id));
    expect(ids.length).toBeGreaterThan(20_000);
    expect(ids).toEqual(ids.map((_, index) => index + 1));
  });

  it("tool results keep their failure, usage and lineage are there, exit codes are not dropped", async () => {
    await create(server, "kept");
    const events = await runTurn(
      server,
      "kept",
      { shell: "exit 42" },
      { subagent: { name: "s", steps: [{ shell: "echo deep" }] } },
      { usage: { input_tokens: 1, output_tokens: 2, cost_usd: 0.5 } },
    );
    const failed = ofType(events, "item.completed").find(({ data }) => data.item.status === "failed");
    expect(failed?.data.item.content).toContainEqual({ type: "json", json: { exit_code: 42 } });
    expect(ofType(events, "turn.ended")[0]?.data.usage).toMatchObject({ cost_usd: 0.5 });
    expect(events.filter((event) => event.parent_id !== undefined).length).toBeGreaterThan(3);
  });
});
