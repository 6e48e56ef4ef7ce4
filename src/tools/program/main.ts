import { createInterface } from "node:readline";
import { findAccess } from "./access.ts";
import { McpServer } from "./mcp.ts";

/** The application's tools as an MCP server on stdio, for whatever agent starts it. */
const server = new McpServer(findAccess(process.env, process.ppid), (message) => {
  process.stdout.write(`${JSON.stringify(message)}\n`);
});

process.stdout.on("error", () => process.exit(0));
// An agent that ends takes the call with it: what waits is withdrawn by the turn's end.
createInterface({ input: process.stdin, crlfDelay: Infinity })
  .on("line", (line) => server.hear(line))
  .on("close", () => process.exit(0));
