import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { LineSplitter } from "../../../text/line-splitter.ts";

interface OpencodeServer {
  /** Its address, once it listens. */
  readonly listening: Promise<URL>;
  readonly password: string;
  /** Settles when it exits without our request. */
  readonly exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  /** Ends it with SIGTERM, then with SIGKILL. */
  stop(): Promise<void>;
}

const PATIENCE_MS = 3_000;

export function startServer(cli: string): OpencodeServer {
  const password = randomBytes(24).toString("base64url");
  const child = spawn(cli, ["serve", "--port", "0", "--hostname", "127.0.0.1"], {
    env: { ...process.env, OPENCODE_SERVER_USERNAME: "opencode", OPENCODE_SERVER_PASSWORD: password },
    stdio: ["ignore", "pipe", "inherit"],
  });
  let isStopping = false;
  const exited = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve) => {
    child.on("error", (error) => {
      process.stderr.write(`opencode-gateway: ${cli} cannot be started: ${error.message}\n`);
      resolve({ code: 127, signal: null });
    });
    child.on("exit", (code, signal) => {
      if (!isStopping) resolve({ code, signal });
    });
  });
  return {
    password,
    exited,
    listening: readAddress(child),
    async stop() {
      isStopping = true;
      await end(child);
    },
  };
}

function readAddress(child: ChildProcess): Promise<URL> {
  return new Promise((resolve) => {
    const lines = new LineSplitter((line) => {
      const url = /listening on (http:\/\/\S+)/.exec(line)?.[1];
      if (url !== undefined) return resolve(new URL(url));
      process.stderr.write(`${line}\n`);
    });
    child.stdout?.on("data", (chunk: Buffer) => lines.push(chunk));
  });
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
  const gone = once(child, "exit");
  child.kill("SIGTERM");
  const killTimer = setTimeout(() => child.kill("SIGKILL"), PATIENCE_MS);
  await gone;
  clearTimeout(killTimer);
}
