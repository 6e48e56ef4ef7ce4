import { createInterface } from "node:readline";
import { findAccess } from "./access.ts";
import { McpServer } from "./mcp.ts";

/** The application's tools as an MCP server on stdio, for any agent. */
const server = new McpServer(findAccess(process.env, process.ppid), (message) => {
  process.stdout.write(`${JSON.stringify(message)}\n`);
});

process.stdout.on("error", () => process.exit(0));
// The agent has ended. Its open calls are cancelled with the turn, so nothing is left to do here.
createInterface({ input: process.stdin, crlfDelay: Infinity })
  .on("line", (line) => server.receive(line))
  .on("close", () => process.exit(0));
