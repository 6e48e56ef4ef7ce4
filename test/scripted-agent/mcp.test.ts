import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ofType, openLab, type RunningAgent } from "./lab.ts";

const lab = openLab();

const TINY = resolve(import.meta.dirname, "mcp-server.mjs");

async function startWith(mcpServers: Record<string, unknown>): Promise<RunningAgent> {
  const file = join(mkdtempSync(join(lab.folder, "mcp-")), "mcp.json");
  writeFileSync(file, JSON.stringify({ mcpServers }));
  return lab.start({ args: [`--mcp-config=${file}`] });
}

describe("MCP over stdio", () => {
  const tiny = { command: process.execPath, args: [TINY], env: { GREETING: "hello " } };

  it("calls a tool of a server that it starts, as mcp__server__tool", async () => {
    const agent = await startWith({ s: tiny });
    const lines = await agent.turn([{ mcp: { server: "s", tool: "echo", input: { a: 1 } } }]);
    expect(ofType(lines, "tool.called")[0]).toMatchObject({ name: "mcp__s__echo", input: { a: 1 } });
    expect(ofType(lines, "tool.ended")[0]).toMatchObject({ output: 'hello {"a":1}', failed: false });
  });

  it("answers the server's own requests", async () => {
    const agent = await startWith({ s: tiny });
    const lines = await agent.turn([{ mcp: { server: "s", tool: "ping" } }]);
    expect(ofType(lines, "tool.ended")[0]).toMatchObject({ output: "pong {}", failed: false });
  });

  it.each([
    ["refuse", "refused by the tool"],
    ["nope", 'MCP server "s" answered error -32602: no tool nope'],
  ])("fails the call of %s with a message", async (tool, output) => {
    const agent = await startWith({ s: tiny });
    const lines = await agent.turn([{ mcp: { server: "s", tool } }]);
    expect(ofType(lines, "tool.ended")[0]).toMatchObject({ failed: true, output });
    expect(ofType(lines, "error")).toEqual([]);
  });

  it("calls several tools at once, and one behind a permission", async () => {
    const agent = await startWith({ s: tiny });
    agent.script([{ parallel: [echo(1), echo(2), { ask: echo(3) }] }]);
    const { data } = await agent.fact("permission.requested");
    expect(data.action).toBe("mcp__s__echo");
    agent.command({ type: "permission", id: data.permission_id, reply: "once" });
    await agent.next("turn.ended");
    const outputs = ofType(agent.said, "tool.ended").map((line) => line.output);
    expect(outputs.sort()).toEqual(["hello 1", "hello 2", "hello 3"]);
  });

  it("fails the call when the server dies, and starts it again for the next", async () => {
    const agent = await startWith({ s: tiny });
    const lines = await agent.turn([
      { mcp: { server: "s", tool: "die" } },
      { mcp: { server: "s", tool: "echo", input: "again" } },
    ]);
    const [died, echoed] = ofType(lines, "tool.ended");
    expect(died).toMatchObject({ failed: true, output: 'MCP server "s" ended (7)' });
    expect(echoed).toMatchObject({ failed: false, output: 'hello "again"' });
  });

  it("interrupts a call that hangs, and tells the server", async () => {
    const agent = await startWith({ s: tiny });
    await agent.turn([{ mcp: { server: "s", tool: "echo" } }]);
    const from = agent.said.length;
    agent.script([{ mcp: { server: "s", tool: "hang" } }]);
    await agent.next("tool.started", { from });
    agent.command({ type: "interrupt" });
    expect(await agent.next("turn.ended", { from })).toMatchObject({ stop_reason: "interrupted" });
    await agent.until(() => agent.stderr.includes("cancelled") || undefined, "the cancellation");
  });

  it.each([
    ["x", /There is no MCP server "x" \(connected: s, gone, old\)/],
    ["gone", /MCP server "gone" did not start: .*ENOENT/],
    ["old", /old transport/],
  ])("says why server %s cannot be used, and goes on", async (server, message) => {
    const agent = await startWith({
      s: tiny,
      gone: { command: "/no/such/program" },
      old: { type: "sse", url: "http://127.0.0.1:9/" },
    });
    const lines = await agent.turn([{ mcp: { server, tool: "echo" } }, { say: "on" }]);
    expect(ofType(lines, "tool.ended")[0]).toMatchObject({
      failed: true,
      output: expect.stringMatching(message),
    });
    expect(ofType(lines, "error")[0]).toMatchObject({ code: "mcp_connection_failed", details: { server } });
    expect(ofType(lines, "turn.ended")[0]?.stop_reason).toBe("end_turn");
  });

  it("leaves no server behind", async () => {
    const agent = await startWith({
      s: { command: "sh", args: ["-c", `echo $$ > pid; exec node "$0"`, TINY] },
    });
    await agent.turn([{ mcp: { server: "s", tool: "echo" } }]);
    const pid = Number(readFileSync(join(agent.workspace, "pid"), "utf8"));
    expect(isAlive(pid)).toBe(true);
    await agent.kill();
    await expect.poll(() => isAlive(pid)).toBe(false);
  });
});

describe("MCP over streamable HTTP", () => {
  let server: Server;
  let url: string;
  const seen: { method: string; session: string | undefined; authorization: string | undefined }[] = [];

  beforeAll(async () => {
    server = createServer((request, response) => {
      void readBody(request).then((body) => {
        const { id, method, params } = JSON.parse(body) as {
          id?: number;
          method: string;
          params?: { name: string; arguments: unknown };
        };
        const session = request.headers["mcp-session-id"];
        seen.push({ method, session: session?.toString(), authorization: request.headers.authorization });
        if (request.headers.authorization !== "Bearer right") return response.writeHead(401).end();
        if (method === "notifications/initialized") return response.writeHead(202).end();
        if (method === "initialize") {
          response.writeHead(200, { "content-type": "application/json", "mcp-session-id": "abc" });
          return response.end(
            JSON.stringify({ jsonrpc: "2.0", id, result: { protocolVersion: "2025-06-18" } }),
          );
        }
        const text = JSON.stringify(params?.arguments);
        const answer = { jsonrpc: "2.0", id, result: { content: [{ type: "text", text }] } };
        if (params?.name === "plain") {
          response.writeHead(200, { "content-type": "application/json" });
          return response.end(JSON.stringify(answer));
        }
        response.writeHead(200, { "content-type": "text/event-stream" });
        if (params?.name === "hang") return response.write(": waiting\n\n");
        response.write(`event: message\r\ndata: {"jsonrpc":"2.0","method":"notifications/progress"}\r\n\r\n`);
        response.write(`event: message\ndata: ${JSON.stringify(answer)}\n\n`);
        // The stream stays open. The answer ends the call.
      });
    });
    await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
  });
  afterAll(async () => {
    server.closeAllConnections();
    await new Promise((closed) => server.close(closed));
  });

  it.each(["plain", "streamed"])("takes a %s answer, within one session", async (tool) => {
    seen.length = 0;
    const agent = await startWith({ h: { type: "http", url, headers: { authorization: "Bearer right" } } });
    const lines = await agent.turn([{ mcp: { server: "h", tool, input: { x: "é" } } }]);
    expect(ofType(lines, "tool.ended")[0]).toMatchObject({ failed: false, output: '{"x":"é"}' });
    expect(seen.map(({ method, session }) => [method, session])).toEqual([
      ["initialize", undefined],
      ["notifications/initialized", "abc"],
      ["tools/call", "abc"],
    ]);
  });

  it("interrupts a call that hangs", async () => {
    const agent = await startWith({ h: { type: "http", url, headers: { authorization: "Bearer right" } } });
    agent.script([{ mcp: { server: "h", tool: "hang" } }]);
    await agent.next("tool.started");
    agent.command({ type: "interrupt" });
    expect(await agent.next("turn.ended")).toMatchObject({ stop_reason: "interrupted" });
  });

  it("says when it is not let in", async () => {
    const agent = await startWith({ h: { type: "http", url } });
    const lines = await agent.turn([{ mcp: { server: "h", tool: "plain" } }]);
    expect(ofType(lines, "error")[0]).toMatchObject({
      code: "mcp_authentication_failed",
      details: { server: "h" },
    });
    expect(ofType(lines, "tool.ended")[0]).toMatchObject({
      failed: true,
      output: 'MCP server "h" answered HTTP 401',
    });
  });

  it("reports a missing server", async () => {
    const agent = await startWith({ h: { type: "http", url: "http://127.0.0.1:9/mcp" } });
    const lines = await agent.turn([{ mcp: { server: "h", tool: "plain" } }]);
    expect(ofType(lines, "error")[0]).toMatchObject({ code: "mcp_connection_failed" });
    expect(ofType(lines, "tool.ended")[0]?.output).toMatch(/cannot be reached/);
  });
});

function echo(input: unknown): unknown {
  return { mcp: { server: "s", tool: "echo", input } };
}

async function readBody(request: IncomingMessage): Promise<string> {
  let body = "";
  for await (const chunk of request) body += String(chunk);
  return body;
}

function isAlive(pid: number): boolean {
  try {
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
}
