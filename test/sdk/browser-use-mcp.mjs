#!/usr/bin/env node
// An MCP server over stdio with the tools of browser-use: it answers as that one does, and opens no browser.
import { createInterface } from "node:readline";

const inputSchema = { type: "object", properties: { task: { type: "string" } }, required: ["task"] };
const TOOLS = [
  { name: "browser_task", description: "Does a task in a browser", inputSchema },
  { name: "monitor_task", description: "Looks after a task", inputSchema },
];
const toResponse = (tool, task) => ({
  task_id: "task_1",
  session_id: "bs_1",
  live_url: "https://live.example/1",
  screenshot_url: "https://shots.example/last.png",
  steps: [{ step_number: 1, screenshot_url: "https://shots.example/1.png", url: "https://example.com" }],
  is_success: true,
  task_output: `${tool}: ${task}`,
});
const ANSWERS = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: {} },
    serverInfo: { name: "browser-use", version: "1" },
  }),
  "tools/list": () => ({ tools: TOOLS }),
  "tools/call": ({ name, arguments: { task } }) => ({
    content: [{ type: "text", text: JSON.stringify(toResponse(name, task)) }],
  }),
  ping: () => ({}),
};

createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const answer = ANSWERS[method];
  const body = answer ? { result: answer(params) } : { error: { code: -32601, message: "no such method" } };
  process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id, ...body })}\n`);
});
