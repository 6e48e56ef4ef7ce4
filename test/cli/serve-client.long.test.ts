import type { ChildProcess } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createClient, type SluiceEvent } from "../../src/client/index.ts";
import { ended, lines, printed, script, Workbench } from "./workbench.ts";

let bench: Workbench;

beforeEach(() => {
  bench = new Workbench();
});

afterEach(() => bench.close());

async function serve(
  args: readonly string[] = [],
): Promise<{ child: ChildProcess; url: string; token: string }> {
  const child = bench.start(["serve", "--port", "0", ...args]);
  const line = await printed(child, /\n/);
  const url = /^sluice listening on (http:\/\/127\.0\.0\.1:\d+)\n$/.exec(line)?.[1] ?? line;
  return {
    child,
    url,
    token: args.includes("--no-token") ? "" : readFileSync(join(bench.data, "token"), "utf8").trim(),
  };
}

async function stop(child: ChildProcess, signal: NodeJS.Signals = "SIGTERM") {
  const end = ended(child);
  child.kill(signal);
  return end;
}

describe("the client and a real server", () => {
  it("creates, sends, subscribes, answers, reads files and deletes", async () => {
    const { child, url, token } = await serve();
    const client = createClient({ url, token });
    expect((await client.health()).status).toBe("ok");
    expect((await client.agents()).map((agent) => agent.id)).toContain("scripted");
    expect((await client.sessions.create("s", { agent: "scripted" })).healthy).toBe(true);
    await expect(client.sessions.create("s", { agent: "scripted" })).rejects.toMatchObject({
      status: 409,
      code: "session_already_exists",
    });

    const steps = [
      { ask: { write: { path: "a.txt", content: "x" } } },
      { question: { prompt: "Which?", options: ["red", "blue"] } },
      { custom: { name: "weather", input: { city: "Oslo" } } },
    ];
    const { turnId } = await client.sendMessage("s", script(...steps), { idempotencyKey: "k1" });
    expect(await client.sendMessage("s", script(...steps), { idempotencyKey: "k1" })).toEqual({ turnId });
    const seen: SluiceEvent[] = [];
    for await (const event of client.subscribe("s", { extensions: true })) {
      seen.push(event);
      if (event.type === "permission.requested")
        await client.replyPermission("s", event.data.permission_id, { reply: "once" });
      if (event.type === "question.requested")
        await client.replyQuestion("s", event.data.question_id, [["blue"]]);
      if (event.type === "tool.requested")
        await client.replyTool("s", event.data.request_id, { output: "rain" });
      if (event.type === "turn.ended") break;
    }
    expect(seen.map((event) => event.sequence)).toEqual(seen.map((_, n) => n + 1));
    expect(seen.filter((event) => event.type === "turn.started")).toHaveLength(1);
    expect(seen.at(-1)).toMatchObject({ type: "turn.ended", data: { turn_id: turnId, status: "completed" } });

    expect(new TextDecoder().decode(await client.fs.read("s", "a.txt"))).toBe("x");
    await client.fs.mkdir("s", "d");
    await client.fs.write("s", "d/b.txt", "yy");
    await client.fs.move("s", { from: "d/b.txt", to: "d/c.txt" });
    expect(await client.fs.stat("s", "d/c.txt")).toMatchObject({ entryType: "file", size: 2 });
    expect((await client.fs.entries("s", "d")).map((entry) => entry.name)).toEqual(["c.txt"]);
    await client.fs.remove("s", "d", { recursive: true });
    await expect(client.fs.stat("s", "d")).rejects.toMatchObject({ status: 404, code: "file_not_found" });

    const paged: SluiceEvent[] = [];
    for await (const event of client.events.iterate("s", { extensions: true, limit: 7 })) paged.push(event);
    expect(paged.slice(0, seen.length)).toEqual(seen);

    const streamed: string[] = [];
    for await (const event of client.messageStream("s", script({ say: "bye" }))) streamed.push(event.type);
    expect(streamed).toContain("item.delta");
    await client.terminate("s");
    expect((await client.sessions.get("s")).ended).toBe(true);
    const rest: string[] = [];
    for await (const event of client.subscribe("s", { after: seen.length })) rest.push(event.type);
    expect(rest.at(-1)).toBe("session.ended");
    await client.sessions.delete("s");
    await expect(client.sessions.get("s")).rejects.toMatchObject({ status: 404, code: "session_not_found" });
    expect((await stop(child)).code).toBe(0);
  });

  it("subscribes across a kill -9 of the server, each event once", async () => {
    const first = await serve();
    let at = first.url;
    const client = createClient({
      url: "http://sluice.test",
      token: first.token,
      // The restarted server has another port, which the client must not need to know.
      fetch: (input, init) => fetch(String(input).replace("http://sluice.test", at), init),
    });
    await client.sessions.create("s", { agent: "scripted" });
    const steps = Array.from({ length: 12 }, (_, n) => [{ say: `word ${n}` }, { sleep: 100 }]).flat();
    await client.sendMessage("s", script(...steps));
    const seen: SluiceEvent[] = [];
    let second: Awaited<ReturnType<typeof serve>> | undefined;
    for await (const event of client.subscribe("s", { extensions: true })) {
      seen.push(event);
      if (event.type === "item.delta" && !second && event.data.delta.includes("3")) {
        first.child.kill("SIGKILL");
        second = await serve();
        at = second.url;
      }
      if (event.type === "turn.ended") break;
    }
    expect(seen.map((event) => event.sequence)).toEqual(seen.map((_, n) => n + 1));
    expect(seen.at(-1)).toMatchObject({ type: "turn.ended", data: { status: "completed" } });
    const said = seen.filter(
      (event) => event.type === "item.completed" && event.data.item.role === "assistant",
    );
    expect(said).toHaveLength(12);
    await client.sessions.delete("s");
    if (second) await stop(second.child);
  });
});

describe("finding the server", () => {
  it("reads the same from the server and from its data folder", async () => {
    await bench.run(["run", "--session", "s", script({ say: "hi" }, { shell: "echo 1" })]);
    const here = await bench.run(["export", "s"]);
    const { child, url, token } = await serve();
    const there = await bench.run(["export", "s", "--server", url]);
    expect(there).toEqual(here);
    const byEnv = await bench.run(["export", "s"], { env: { SLUICE_URL: url, SLUICE_TOKEN: token } });
    expect(byEnv).toEqual(here);
    expect(lines(here.out).length).toBeGreaterThan(10);
    const wrong = await bench.run(["sessions", "--server", url, "--token", "wrong"]);
    expect(wrong.code).toBe(1);
    expect(wrong.err).toContain("The token is wrong");
    await stop(child);
    const gone = await bench.run(["sessions", "--server", url]);
    expect(gone.code).toBe(1);
    expect(gone.err).toContain(`No answer from ${url}`);
  });

  it("follows a running session through the server, to its end", async () => {
    const { child, url, token } = await serve();
    const client = createClient({ url, token });
    await client.sessions.create("s", { agent: "scripted" });
    await client.sendMessage("s", script({ say: "slow" }, { sleep: 300 }, { say: "done now" }));
    const { code, out } = await bench.run(["tail", "s", "--server", url]);
    expect(code).toBe(0);
    expect(out).toContain("done now");
    await stop(child);
  });
});
