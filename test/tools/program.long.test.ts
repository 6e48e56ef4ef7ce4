import { spawn } from "node:child_process";
import { once } from "node:events";
import { resolve } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openBench, RUN, speak, startProgram, toVariables, LISTED, type ToolBench } from "./bench.ts";

const PROGRAM = resolve(import.meta.dirname, "../../dist/agents/tools.js");

const TEXT = { type: "text", text: "sunny" } as const;

describe("the MCP server in the sandbox", () => {
  let bench: ToolBench;
  beforeEach(async () => {
    bench = await openBench();
  });
  afterEach(() => bench.close());

  const onlyCall = (): string => [...bench.application.calls.keys()][0] ?? "";
  const called = (): Promise<void> => bench.application.until(() => bench.application.calls.size > 0);

  it("greets in the client's version, lists the tools and knows no other method", async () => {
    const client = startProgram(await bench.server.open(RUN));
    const hello = await client.request("initialize", { protocolVersion: "2025-03-26", capabilities: {} });
    expect(hello.result).toMatchObject({ protocolVersion: "2025-03-26", capabilities: { tools: {} } });
    client.notify("notifications/initialized");
    expect((await client.request("tools/list")).result).toEqual({ tools: [LISTED] });
    expect((await client.request("ping")).result).toEqual({});
    expect((await client.request("resources/list")).error?.code).toBe(-32_601);
    expect(await client.end()).toBe(0);
  });

  it("carries a call and its answer: text, JSON and an image", async () => {
    const client = startProgram(await bench.server.open(RUN));
    const id = client.send("tools/call", { name: "weather", arguments: { city: "Bern" } });
    await called();
    expect([...bench.application.calls.values()]).toMatchObject([
      { name: "weather", input: { city: "Bern" } },
    ]);
    bench.application.answer(onlyCall(), {
      status: "completed",
      content: [
        TEXT,
        { type: "json", json: { degrees: 21 } },
        { type: "image", path: "data:image/png;base64,AAAA" },
      ],
    });
    expect((await client.answerOf(id)).result).toEqual({
      content: [
        TEXT,
        { type: "text", text: '{"degrees":21}' },
        { type: "image", data: "AAAA", mimeType: "image/png" },
      ],
      isError: false,
    });
    await client.end();
  });

  it("calls at the same time are answered each by its own", async () => {
    const client = startProgram(await bench.server.open(RUN));
    const ids = ["a", "b", "c"].map((city) =>
      client.send("tools/call", { name: "weather", arguments: { city } }),
    );
    await bench.application.until(() => bench.application.calls.size === 3);
    for (const call of [...bench.application.calls.values()].toReversed()) {
      const { city } = call.input as { city: string };
      bench.application.answer(call.id, {
        status: "failed",
        content: [{ type: "text", text: `no ${city}` }],
      });
    }
    const answers = await Promise.all(ids.map((id) => client.answerOf(id)));
    expect(answers.map(({ result }) => result)).toEqual(
      ["a", "b", "c"].map((city) => ({ content: [{ type: "text", text: `no ${city}` }], isError: true })),
    );
    await client.end();
  });

  it("sends progress where the caller asked for it", async () => {
    const client = startProgram(await bench.server.open(RUN));
    const id = client.send("tools/call", { name: "weather", _meta: { progressToken: "p1" } });
    const sign = await client.next(({ method }) => method === "notifications/progress");
    expect(sign.params).toEqual({ progressToken: "p1", progress: 1 });
    bench.application.answer(onlyCall(), { status: "completed", content: [TEXT] });
    await client.answerOf(id);
    await client.end();
  });

  it("passes a cancellation on, and answers no cancelled call", async () => {
    const client = startProgram(await bench.server.open(RUN));
    const id = client.send("tools/call", { name: "weather" });
    await called();
    client.notify("notifications/cancelled", { requestId: id });
    await bench.application.until(() => bench.application.cancelled.length > 0);
    expect(bench.application.cancelled).toEqual([onlyCall()]);
    expect((await client.request("ping")).result).toEqual({});
    expect(client.heard.some((message) => message.id === id)).toBe(false);
    await client.end();
  });

  it("asks again by the same id where the engine's patience ends first", async () => {
    const short = await openBench({ patienceMs: 30 });
    const client = startProgram(await short.server.open(RUN));
    const id = client.send("tools/call", { name: "weather" });
    await short.application.until(() => short.application.asked >= 3);
    expect(short.application.calls.size).toBe(1);
    const [call] = short.application.calls.keys();
    short.application.answer(call ?? "", { status: "completed", content: [TEXT] });
    expect((await client.answerOf(id)).result).toEqual({ content: [TEXT], isError: false });
    await client.end();
    await short.close();
  });

  it("waits for a server that is away, and is answered once it is back", async () => {
    const client = startProgram(await bench.server.open(RUN));
    const id = client.send("tools/call", { name: "weather" });
    await called();
    await bench.server.close();
    const call = onlyCall();
    bench.application.answer(call, { status: "completed", content: [TEXT] });
    const listed = client.send("tools/list");
    await bench.restart();
    expect((await client.answerOf(id)).result).toEqual({ content: [TEXT], isError: false });
    expect((await client.answerOf(listed)).result).toEqual({ tools: [LISTED] });
    expect([...bench.application.calls.keys()]).toEqual([call]);
    await client.end();
  });

  it("finds its way in the agent's environment where it was given a clean one", async () => {
    const inner = `exec env -i ${process.execPath} ${PROGRAM}`;
    const env = { PATH: process.env["PATH"] ?? "", ...toVariables(await bench.server.open(RUN)) };
    // The shell stays as the parent: it is the agent here.
    const child = spawn("/bin/sh", ["-c", `(${inner}); exit $?`], {
      env,
      stdio: ["pipe", "pipe", "inherit"],
    });
    const client = speak(child.stdin, child.stdout, async () => {
      const exit = once(child, "exit");
      child.stdin.end();
      return ((await exit) as [number | null])[0];
    });
    expect((await client.request("tools/list")).result).toEqual({ tools: [LISTED] });
    expect(await client.end()).toBe(0);
  });

  it("finds its way in the environment of the first process of a namespace, above a clean shell", async () => {
    const inner = `(exec env -i ${process.execPath} ${PROGRAM}); exit $?`;
    const child = spawn(
      "unshare",
      [
        "--user",
        "--map-root-user",
        "--pid",
        "--fork",
        "--mount-proc",
        "/bin/sh",
        "-c",
        'env -i /bin/sh -c "$0"; exit $?',
        inner,
      ],
      {
        env: { PATH: process.env["PATH"] ?? "", ...toVariables(await bench.server.open(RUN)) },
        stdio: ["pipe", "pipe", "inherit"],
      },
    );
    const client = speak(child.stdin, child.stdout, async () => {
      const exit = once(child, "exit");
      child.stdin.end();
      return ((await exit) as [number | null])[0];
    });
    expect((await client.request("tools/list")).result).toEqual({ tools: [LISTED] });
    expect(await client.end()).toBe(0);
  });

  it("has no tools where there is no way to any", async () => {
    const client = startProgram({});
    expect((await client.request("tools/list")).result).toEqual({ tools: [] });
    expect((await client.request("tools/call", { name: "weather" })).error?.message).toContain(
      "no application",
    );
    await client.end();
  });

  it("tells the agent when its run is over", async () => {
    const access = await bench.server.open({ ...RUN, process: 2 });
    const client = startProgram(access);
    const { result } = await client.request("tools/call", { name: "weather" });
    expect(result).toMatchObject({ isError: true });
    await client.end();
  });
});
