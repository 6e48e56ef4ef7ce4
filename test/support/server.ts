import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { chown, mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { createClient } from "../../src/client/index.ts";

const BIN = resolve(import.meta.dirname, "../../bin/sluice");

/** A real `sluice serve` in a process of its own, on one port through all its lives. */
export interface TestServer {
  readonly url: string;
  readonly data: string;
  readonly token: string;
  readonly pid: number;
  readonly stderr: () => string;
  readonly client: ReturnType<typeof createClient>;
  fetch(path: string, init?: RequestInit): Promise<Response>;
  /** SIGKILL, and wait until it is gone. */
  kill(): Promise<void>;
  /** SIGTERM; answers its exit code. */
  stop(): Promise<number | null>;
  start(): Promise<void>;
  /** Removes every session, stops, and removes the data. */
  close(): Promise<void>;
}

export async function startServer(
  options: {
    args?: string[];
    env?: Record<string, string>;
    /** Where its data lie, unless in a folder of their own. */
    data?: string;
    /** Its user, where that is not the user who runs the tests. */
    user?: { readonly uid: number; readonly gid: number } | undefined;
    /** Goes before its command line, such as limits. */
    prefix?: readonly string[];
    /** Called with its port before it starts. */
    onPort?: (port: number) => void;
    /** Where its data folder is made, where that is not the folder for temporary files. */
    disk?: string | undefined;
  } = {},
): Promise<TestServer> {
  const data = options.data ?? (await mkdtemp(join(options.disk ?? tmpdir(), "sluice-server-")));
  const { user } = options;
  if (user !== undefined) await chown(data, user.uid, user.gid);
  const port = await freePort();
  options.onPort?.(port);
  const url = `http://127.0.0.1:${port}`;
  let child: ChildProcess | undefined;
  let stderr = "";
  let token = "";

  const start = async (): Promise<void> => {
    const args = ["serve", "--port", String(port), "--data", data, ...(options.args ?? [])];
    // A token of the environment would take the place of the folder's own.
    const env = {
      ...process.env,
      SLUICE_TOKEN: "",
      ...(user === undefined ? {} : { HOME: data }),
      ...options.env,
    };
    const [program = BIN, ...before] = [...(options.prefix ?? []), BIN];
    child = spawn(program, [...before, ...args], { ...user, stdio: ["ignore", "pipe", "pipe"], env });
    child.stderr?.on("data", (chunk: Buffer) => {
      stderr += chunk.toString();
    });
    const exited = once(child, "exit").then(() => Promise.reject(new Error(`sluice serve ended: ${stderr}`)));
    exited.catch(() => {});
    if (!child.stdout) throw new Error("no stdout");
    const [line] = (await Promise.race([once(createInterface({ input: child.stdout }), "line"), exited])) as [
      string,
    ];
    if (line !== `sluice listening on ${url}`) throw new Error(`unexpected first line: ${line}`);
    token =
      (options.env?.["SLUICE_TOKEN"] || undefined) ??
      (await readFile(join(data, "token"), "utf8").then(
        (text) => text.trim(),
        () => "",
      ));
  };
  const end = async (signal: NodeJS.Signals): Promise<number | null> => {
    if (!child || child.exitCode !== null || child.signalCode !== null) return child?.exitCode ?? null;
    const exit = once(child, "exit");
    child.kill(signal);
    const [code] = (await exit) as [number | null];
    return code;
  };

  await start();
  const client = createClient({ url, token });
  return {
    url,
    data,
    get token() {
      return token;
    },
    get pid() {
      return child?.pid ?? -1;
    },
    stderr: () => stderr,
    client,
    fetch: (path, init = {}) =>
      fetch(`${url}${path}`, {
        ...init,
        headers: { authorization: `Bearer ${token}`, ...(init.headers as Record<string, string>) },
      }),
    kill: async () => {
      await end("SIGKILL");
    },
    stop: () => end("SIGTERM"),
    start,
    async close() {
      if (child?.exitCode !== null || child.signalCode !== null) await start();
      const { sessions } = await client.sessions.list({ limit: 1000 });
      for (const { sessionId } of sessions) await client.sessions.delete(sessionId);
      await end("SIGTERM");
      await rm(data, { recursive: true, force: true });
    },
  };
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}
