import { execFile, spawn } from "node:child_process";
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import {
  DELTA_BYTES,
  type BenchSession,
  type Contender,
  type RunningServer,
  type StartOptions,
} from "./contender.ts";
import { endChild } from "../processes.ts";
import { freePort } from "../environment.ts";
import { call, inParallel } from "../clients/http.ts";
import { childrenOf } from "../processes.ts";
import { bundled } from "../environment.ts";

const VERSION = "0.4.2";
const AGENT = "pi";
const READY_MS = 15_000;

/** Installs the peer into a folder of its own, with an agent without a model in the peer's agent folder. */
export async function installSandboxAgent(): Promise<Contender & { remove(): Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-bench-peer-"));
  const remove = (): Promise<void> => rm(folder, { recursive: true, force: true, maxRetries: 3 });
  try {
    await writeFile(join(folder, "package.json"), '{"private":true}');
    await promisify(execFile)(
      "npm",
      [
        "install",
        "--no-audit",
        "--no-fund",
        "--loglevel=error",
        "--fetch-retries=1",
        `sandbox-agent@${VERSION}`,
      ],
      { cwd: folder, timeout: 180_000 },
    );
    const binary = await findBinary(folder);
    await plantAgent(folder);
    const name = `sandbox-agent ${VERSION}`;
    return { name, start: (options) => startPeer(folder, binary, options ?? {}), remove };
  } catch (error) {
    await remove();
    throw error;
  }
}

async function startPeer(folder: string, binary: string, options: StartOptions): Promise<RunningServer> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const program = options.plainly ? join(folder, "node_modules/.bin/sandbox-agent") : binary;
  const home = await mkdtemp(join(folder, "home-"));
  const begun = performance.now();
  const child = spawn(
    program,
    ["server", "--no-token", "--no-telemetry", "--host", "127.0.0.1", "--port", String(port)],
    {
      stdio: "ignore",
      env: {
        ...process.env,
        HOME: home,
        XDG_DATA_HOME: join(home, "data"),
        PATH: `${join(folder, "agents")}${delimiter}${process.env["PATH"] ?? ""}`,
        SANDBOX_AGENT_REQUIRE_PREINSTALL: "1",
      },
    },
  );
  const pid = child.pid ?? 0;
  const launched = (): number[] => (options.plainly ? childrenOf(pid) : []);
  const stop = async (): Promise<void> => {
    const below = launched();
    const agents = (options.plainly ? below : [pid]).flatMap(childrenOf);
    // The launcher passes no signal on, so its children are ended first.
    for (const each of below) endProcess(each, "SIGTERM");
    await endChild(child, "SIGTERM");
    for (const each of [...below, ...agents]) endProcess(each, "SIGKILL");
    await rm(home, { recursive: true, force: true, maxRetries: 3 });
  };
  child.on("error", () => {});
  await untilHealthy(url).catch(async (error: unknown) => {
    await stop();
    throw error;
  });
  const readyMs = performance.now() - begun;
  let servers = 0;
  return {
    url,
    readyMs,
    pids: () => [pid, ...launched()],
    probe: async () => void (await call("GET", `${url}/v1/health`)),
    collect: async () => {},
    openSession: (first) => openSession(`${url}/v1/acp/bench-${++servers}`, first?.deltas),
    async createIdle(count) {
      const server = `${url}/v1/acp/bench-${++servers}`;
      const rpc = await openServer(server);
      await inParallel(count, 8, () => rpc("session/new", NEW_SESSION));
    },
    stop,
  };
}

const NEW_SESSION = { cwd: tmpdir(), mcpServers: [] };

type Rpc = (method: string, params: unknown) => Promise<string>;

async function openServer(url: string): Promise<Rpc> {
  let id = 0;
  const rpc: Rpc = async (method, params) => {
    id += 1;
    const target = id === 1 ? `${url}?agent=${AGENT}` : url;
    return (await call("POST", target, { jsonrpc: "2.0", id, method, params })).text;
  };
  await rpc("initialize", { protocolVersion: 1, clientCapabilities: {} });
  return rpc;
}

async function openSession(url: string, first = 400): Promise<BenchSession> {
  const rpc = await openServer(url);
  const created = JSON.parse(await rpc("session/new", NEW_SESSION)) as { result: { sessionId: string } };
  const { sessionId } = created.result;
  // It numbers every message of its agent: the two answers so far, then each chunk, then each turn's answer.
  let sent = 2;
  const session: BenchSession = {
    stream: { url, headers: { accept: "text/event-stream" } },
    head: async () => sent,
    async flood(deltas) {
      sent += deltas + 1;
      const text = `flood ${deltas} ${DELTA_BYTES}`;
      await rpc("session/prompt", { sessionId, prompt: [{ type: "text", text }] });
    },
    prompt: {
      url,
      body: JSON.stringify({
        jsonrpc: "2.0",
        id: "%n",
        method: "session/prompt",
        params: { sessionId, prompt: [{ type: "text", text: "say three words" }] },
      }),
      agentMark: '"agent_message_chunk"',
    },
    endMark: '"stopReason"',
  };
  await session.flood(first);
  return session;
}

async function findBinary(folder: string): Promise<string> {
  const platform = `@sandbox-agent/cli-${process.platform}-${process.arch}`;
  const binary = join(folder, "node_modules", platform, "bin/sandbox-agent");
  await readFile(join(folder, "node_modules", platform, "package.json")).catch(() => {
    throw new Error(`it has no package for ${process.platform} ${process.arch}`);
  });
  await chmod(binary, 0o755);
  return binary;
}

async function plantAgent(folder: string): Promise<void> {
  const agents = join(folder, "agents");
  await mkdir(agents);
  const script = `#!/bin/sh\nexec '${process.execPath}' '${bundled("acp-agent.js")}'\n`;
  for (const name of [AGENT, `${AGENT}-acp`]) await writeFile(join(agents, name), script, { mode: 0o755 });
}

async function untilHealthy(url: string): Promise<void> {
  const deadline = Date.now() + READY_MS;
  for (;;) {
    try {
      await call("GET", `${url}/v1/health`);
      return;
    } catch (error) {
      if (Date.now() > deadline) throw error;
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
  }
}

function endProcess(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended by itself.
  }
}
