#!/usr/bin/env node
// A tiny MCP server over stdio: `add` sums `a` and `b`, `picture` answers with an image.
import { createInterface } from "node:readline";

const DOT =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const numbers = { type: "object", properties: { a: { type: "number" }, b: { type: "number" } } };
const tools = [
  { name: "add", description: "Adds two numbers", inputSchema: numbers },
  { name: "picture", description: "Shows a dot", inputSchema: { type: "object", properties: {} } },
];

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
  if (method === "tools/list") return answer({ tools });
  if (method === "tools/call" && params.name === "picture") {
    return answer({ content: [{ type: "image", data: DOT, mimeType: "image/png" }] });
  }
  if (method === "tools/call") {
    const { a, b } = params.arguments;
    return answer({ content: [{ type: "text", text: String(a + b) }] });
  }
  if (id !== undefined) answer({});
});
