import { spawn } from "node:child_process";
import { orHalted } from "../halt.ts";
import { LineSplitter } from "../../text/line-splitter.ts";
import { toAnswer, toResult, McpFailure, type RpcMessage, type McpConnection } from "./mcp-connection.ts";

/** Starts an MCP server as a child and speaks with it over its stdin and stdout. */
export function connectStdio(
  server: string,
  start: { command: string; args: readonly string[]; env: Record<string, string> },
): McpConnection {
  const child = spawn(start.command, start.args, {
    env: { ...process.env, ...start.env },
    stdio: ["pipe", "pipe", "inherit"],
    detached: true,
  });
  const waiting = new Map<number, (message: RpcMessage | McpFailure) => void>();
  let lastId = 0;
  let gone: McpFailure | undefined;

  const send = (message: RpcMessage) => {
    if (gone !== undefined) throw gone;
    child.stdin.write(`${JSON.stringify(message)}\n`);
  };
  const kill = () => killGroup(child.pid);
  const ended = new Promise<void>((resolve) => {
    const end = (failure: McpFailure) => {
      gone ??= failure;
      for (const settle of waiting.values()) settle(gone);
      waiting.clear();
      process.off("exit", kill);
      resolve();
    };
    child.on("error", (error) =>
      end(new McpFailure(server, `MCP server "${server}" did not start: ${error.message}`)),
    );
    child.on("exit", (code, signal) =>
      end(new McpFailure(server, `MCP server "${server}" ended (${signal ?? code})`)),
    );
  });
  process.on("exit", kill);
  child.stdin.on("error", () => {});

  const lines = new LineSplitter((line) => {
    const message = parseMessage(line);
    if (message === undefined) return;
    if (message.method !== undefined) {
      if (message.id !== undefined) send(toAnswer(message));
      return;
    }
    waiting.get(Number(message.id))?.(message);
    waiting.delete(Number(message.id));
  });
  child.stdout.on("data", (chunk: Buffer) => lines.push(chunk));

  return {
    ended,
    async request(method, params, { signal }) {
      lastId += 1;
      const id = lastId;
      const answered = new Promise<RpcMessage | McpFailure>((resolve) => waiting.set(id, resolve));
      try {
        send({ jsonrpc: "2.0", id, method, params });
        const answer = await orHalted(signal, answered);
        if (answer instanceof McpFailure) throw answer;
        return toResult(server, answer);
      } catch (error) {
        if (signal.aborted && gone === undefined) {
          send({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: id } });
        }
        throw error;
      } finally {
        waiting.delete(id);
      }
    },
    async notify(method, params) {
      send({ jsonrpc: "2.0", method, params });
    },
    close: kill,
  };
}

function parseMessage(line: string): RpcMessage | undefined {
  try {
    const message: unknown = JSON.parse(line);
    return typeof message === "object" && message !== null ? message : undefined;
  } catch {
    // A line that is no JSON, such as a banner, is ignored.
    return undefined;
  }
}

function killGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // The group is gone already.
  }
}
