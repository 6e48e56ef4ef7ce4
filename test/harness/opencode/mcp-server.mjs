#!/usr/bin/env node
// A tiny MCP server over stdio, with one tool: `add` sums `a` and `b`.
import { createInterface } from "node:readline";

const schema = {
  type: "object",
  properties: { a: { type: "number" }, b: { type: "number" } },
  required: ["a", "b"],
};

createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  const answer = (result) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id, result })}\n`);
  if (method === "initialize") {
    const { protocolVersion } = params;
    return answer({
      protocolVersion,
      capabilities: { tools: {} },
      serverInfo: { name: "sums", version: "1" },
    });
  }
  if (method === "tools/list")
    return answer({ tools: [{ name: "add", description: "Adds", inputSchema: schema }] });
  if (method === "tools/call") {
    const { a, b } = params.arguments;
    return answer({ content: [{ type: "text", text: String(a + b) }] });
  }
  if (id !== undefined) answer({});
});
