import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createClient, type SluiceClient } from "../../src/client/index.ts";
import type { SluiceEvent } from "../../src/contract/index.ts";
import { ended, printed, Workbench } from "../cli/workbench.ts";
import { ofType, processesWith, script } from "../support/engine.ts";
import { expectLawful } from "../support/laws.ts";

type Served = {
  client: SluiceClient;
  url: string;
  pid: number | undefined;
  stop: (signal: NodeJS.Signals) => Promise<void>;
};

let bench: Workbench;
beforeEach(() => {
  bench = new Workbench();
});
afterEach(() => bench.close());

async function serve(): Promise<Served> {
  const child = bench.start(["serve", "--port", "0", "--no-token"]);
  const end = ended(child);
  const url = (await printed(child, /\n/)).trim().split(" ").at(-1) ?? "";
  const stop = async (signal: NodeJS.Signals): Promise<void> => {
    child.kill(signal);
    await end;
  };
  return { client: createClient({ url }), url, pid: child.pid, stop };
}

async function follow(
  client: SluiceClient,
  id: string,
  isLast: (event: SluiceEvent) => boolean,
): Promise<SluiceEvent[]> {
  const events: SluiceEvent[] = [];
  for await (const event of client.subscribe(id, { extensions: true })) {
    events.push(event);
    if (isLast(event)) break;
  }
  return events;
}

const codeOf = (task: Promise<unknown>): Promise<string> =>
  task.then(
    () => "done",
    (error: { status?: number; code?: string }) => `${error.status} ${error.code}`,
  );

describe("two servers on one data folder", () => {
  it("share the log; a session that runs in one is busy in the other, for every write", async () => {
    const [one, two] = [await serve(), await serve()];
    await one.client.sessions.create("s", { agent: "scripted" });
    await one.client.sendMessage("s", script({ ask: { shell: "true" } }, { say: "done" }));
    await follow(one.client, "s", (event) => event.type === "turn.waiting");
    const { pendingActions } = await two.client.sessions.get("s");
    const id = pendingActions[0]?.id ?? "";
    expect(await codeOf(two.client.sendMessage("s", "me too"))).toBe("409 session_busy");
    expect(await codeOf(two.client.replyPermission("s", id, { reply: "once" }))).toBe("409 session_busy");
    expect(await codeOf(two.client.interrupt("s"))).toBe("409 session_busy");
    const refusal = await two.client.interrupt("s").catch((error: { facts?: object }) => error.facts);
    expect(refusal).toEqual({ holder: one.pid });
    expect(await codeOf(two.client.terminate("s"))).toBe("409 session_busy");
    expect(await codeOf(two.client.sessions.delete("s"))).toBe("409 session_busy");
    expect(await codeOf(two.client.sessions.create("s", { agent: "scripted" }))).toBe(
      "409 session_already_exists",
    );

    const watching = follow(two.client, "s", (event) => event.type === "turn.ended");
    await one.client.replyPermission("s", id, { reply: "once" });
    const events = await watching;
    expectLawful(events);
    expect(ofType(events, "process.started")).toHaveLength(1);
    await one.client.sessions.delete("s");
    await one.stop("SIGTERM");
    await two.stop("SIGTERM");
  });

  it("hand a session over when one stops, with its memory", async () => {
    const [one, two] = [await serve(), await serve()];
    await one.client.sessions.create("s", { agent: "scripted" });
    const { turnId } = await one.client.sendMessage("s", script({ say: "remember" }));
    await follow(one.client, "s", (event) => event.type === "turn.ended" && event.turn_id === turnId);
    await one.stop("SIGTERM");
    const next = await two.client.sendMessage("s", script({ say: "$history", chunks: 1 }));
    const events = await follow(
      two.client,
      "s",
      (event) => event.type === "turn.ended" && event.turn_id === next.turnId,
    );
    expectLawful(events);
    expect(JSON.stringify(events.at(-3))).toContain("remember");
    await two.client.sessions.delete("s");
    await two.stop("SIGTERM");
  });

  it("when one is killed in mid-turn, the other takes the turn over as soon as it is spoken to", async () => {
    const [one, two] = [await serve(), await serve()];
    await one.client.sessions.create("s", { agent: "scripted" });
    const first = await one.client.sendMessage(
      "s",
      script({ say: "a" }, { shell: "echo on; sleep 0.7; echo off" }, { say: "b" }),
    );
    await follow(one.client, "s", (event) => event.type === "item.delta" && event.data.delta === "on\n");
    await one.stop("SIGKILL");
    const second = await two.client.sendMessage("s", script({ say: "c" }));
    const events = await follow(
      two.client,
      "s",
      (event) => event.type === "turn.ended" && event.turn_id === second.turnId,
    );
    expectLawful(events);
    expect(ofType(events, "turn.ended").map((event) => [event.turn_id, event.data.status])).toEqual([
      [first.turnId, "completed"],
      [second.turnId, "completed"],
    ]);
    expect(ofType(events, "process.started")).toHaveLength(1);
    await two.client.sessions.delete("s");
    await two.stop("SIGTERM");
  });

  it("when one is killed, the other takes its session over at once, though it has just seen it alive", async () => {
    const [one, two] = [await serve(), await serve()];
    await one.client.sessions.create("s", { agent: "scripted" });
    await one.client.sendMessage("s", script({ ask: { shell: "true" } }, { say: "done" }));
    await follow(one.client, "s", (event) => event.type === "turn.waiting");
    const { pendingActions } = await two.client.sessions.get("s");
    const allow = (): Promise<void> =>
      two.client.replyPermission("s", pendingActions[0]?.id ?? "", { reply: "once" });
    expect(await codeOf(allow())).toBe("409 session_busy");
    await one.stop("SIGKILL");
    expect(await codeOf(allow())).toBe("done");
    const events = await follow(two.client, "s", (event) => event.type === "turn.ended");
    expectLawful(events);
    expect(events.at(-1)?.data).toMatchObject({ status: "completed" });
    await two.client.sessions.delete("s");
    await two.stop("SIGTERM");
  });

  it("when one is killed in mid-turn, a reader at the other still gets to see the turn's end", async () => {
    const [one, two] = [await serve(), await serve()];
    await one.client.sessions.create("s", { agent: "scripted" });
    await one.client.sendMessage("s", script({ shell: "echo on; sleep 0.3" }, { say: "b" }));
    await follow(one.client, "s", (event) => event.type === "item.delta" && event.data.delta === "on\n");
    await one.stop("SIGKILL");
    const ended = follow(two.client, "s", (event) => event.type === "turn.ended").then(() => "ended");
    const waited = new Promise((resolve) => setTimeout(resolve, 5_000, "nothing for 5 s"));
    const what = await Promise.race([ended, waited]);
    // A message makes it take over, so nothing is left behind.
    await two.client.interrupt("s");
    await ended;
    await two.client.sessions.delete("s");
    await two.stop("SIGTERM");
    expect(what).toBe("ended");
  });

  it("never both write: concurrent messages for one session are accepted or refused, none is lost or doubled", async () => {
    const servers = [await serve(), await serve()];
    for (let round = 0; round < 6; round++) {
      const id = `race-${round}`;
      await servers[round % 2]?.client.sessions.create(id, { agent: "scripted" });
      const sent = await Promise.all(
        Array.from({ length: 10 }, async (_, index) => {
          const { client } = servers[index % 2] as Served;
          const message = client.sendMessage(id, script({ shell: "echo $PPID" }), {
            idempotencyKey: `k${index}`,
          });
          return message.then(
            ({ turnId }) => ({ turnId, server: index % 2 }),
            (error: { status?: number; code?: string }) => ({ refused: `${error.status} ${error.code}` }),
          );
        }),
      );
      const refusals = new Set(sent.flatMap((answer) => ("refused" in answer ? [answer.refused] : [])));
      expect([...refusals].filter((refusal) => refusal !== "409 session_busy")).toEqual([]);
      const turns = sent.flatMap((answer) => ("turnId" in answer ? [answer.turnId] : []));
      expect(turns.length).toBeGreaterThan(0);
      let left = turns.length;
      const events = await follow(
        servers[0]?.client as SluiceClient,
        id,
        (event) => event.type === "turn.ended" && --left === 0,
      );
      expectLawful(events);
      expect(new Set(ofType(events, "turn.ended").map((event) => event.turn_id))).toEqual(new Set(turns));
      expect(ofType(events, "process.started")).toHaveLength(1);
    }
    for (const { stop } of servers) await stop("SIGTERM");
    expect(await processesWith(bench.data)).toEqual([]);
  });
});

describe("sluice run beside a server on the same data folder", () => {
  it("is refused for a session that runs there, with the server's process", async () => {
    const server = await serve();
    await server.client.sessions.create("s", { agent: "scripted" });
    await server.client.sendMessage("s", script({ ask: { shell: "true" } }));
    const events = await follow(server.client, "s", (event) => event.type === "turn.waiting");
    const { code, out, err } = await bench.run(["run", "--session", "s", script({ say: "mine now" })]);
    expect([code, out]).toEqual([1, ""]);
    expect(err).toMatch(/session s is being run by process \d+; wait until it ends, or speak to it there/);
    expect(err).toContain("If that is a server, name it with --server URL.");
    expect((await server.client.sessions.get("s")).eventCount).toBe(events.length);
    await server.client.sessions.delete("s");
    await server.stop("SIGTERM");
  });

  it("runs sessions of its own, which the server shows at once and can continue afterwards", async () => {
    const server = await serve();
    const running = bench.start([
      "run",
      "--session",
      "mine",
      script({ say: "here I am" }, { shell: "sleep 0.5" }),
    ]);
    const end = ended(running);
    await expect
      .poll(async () => (await server.client.sessions.list()).sessions.map(({ sessionId }) => sessionId), {
        timeout: 15_000,
      })
      .toEqual(["mine"]);
    const seen = await follow(server.client, "mine", (event) => event.type === "turn.ended");
    expectLawful(seen);
    expect((await end).code).toBe(0);
    const { turnId } = await server.client.sendMessage("mine", script({ say: "$history", chunks: 1 }));
    const events = await follow(
      server.client,
      "mine",
      (event) => event.type === "turn.ended" && event.turn_id === turnId,
    );
    expectLawful(events);
    expect(JSON.stringify(events)).toContain("here I am");
    await server.client.sessions.delete("mine");
    await server.stop("SIGTERM");
  });

  it("does not disturb the running sessions of the server", async () => {
    const server = await serve();
    await server.client.sessions.create("s", { agent: "scripted" });
    await server.client.sendMessage("s", script({ shell: "echo on; sleep 2" }, { say: "b" }));
    await follow(server.client, "s", (event) => event.type === "item.delta");
    expect((await bench.run(["run", script({ say: "short" })])).code).toBe(0);
    const events = await follow(server.client, "s", (event) => event.type === "turn.ended");
    expectLawful(events);
    expect(events.at(-1)?.data).toMatchObject({ status: "completed" });
    await server.client.sessions.delete("s");
    await server.stop("SIGTERM");
  });
});
