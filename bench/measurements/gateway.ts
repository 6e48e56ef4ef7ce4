import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer as createHttpServer, request } from "node:http";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { encrypt, isProof, toAgentToken } from "../../src/gateway/desk.ts";
import { bundled, freePort, ROOT, withFolder } from "../environment.ts";
import type { Measurement, Plan } from "../plan.ts";
import { listeningUrl } from "../processes.ts";
import { median, quantile, type Row, toRow } from "../report/row.ts";

const STREAMS = 200;
const PER_SECOND = 1_000;
const DESK_TOKEN = "the bench's own desk";

/** (q) The model gateway between a client and a model, against the bare connection. */
export const gateway: Measurement = {
  id: "q",
  title: "the model gateway, against the bare connection",
  measure: (plan) => withFolder((folder) => measure(plan, folder)),
};

interface Target {
  readonly url: string;
  readonly headers: Record<string, string>;
}

async function measure(plan: Plan, folder: string): Promise<Row[]> {
  const model = spawn(process.execPath, [bundled("model-server.js"), "--port", String(await freePort())], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  const url = await listeningUrl(model);
  const desk = await openDesk();
  const listener = await listen();
  const host = startGateway(listener, { upstream: url, desk: desk.url, folder });
  const bare: Target = { url: `${url}/v1/chat/completions`, headers: {} };
  const led: Target = {
    url: `http://127.0.0.1:${listener.port}/model/v1/chat/completions`,
    headers: { authorization: `Bearer ${toAgentToken(DESK_TOKEN)}` },
  };
  try {
    return await compare(plan, bare, led);
  } finally {
    for (const child of [host, model]) child.kill("SIGKILL");
    desk.close();
  }
}

async function compare(plan: Plan, bare: Target, led: Target): Promise<Row[]> {
  const requests = plan.quick ? 200 : 1_000;
  const chunks = plan.quick ? 200 : 1_000;
  const first: { bare: number[]; led: number[] }[] = [];
  const whole: { bare: number; led: number }[] = [];
  let lost = 0;
  // The first requests compile the code of both.
  for (let at = 0; at < 50; at++) for (const target of [bare, led]) await ask(target, 1);
  for (let round = 0; round < plan.rounds; round++) {
    plan.progress(`round ${round + 1} of ${plan.rounds}`);
    const times = { bare: [] as number[], led: [] as number[] };
    for (let at = 0; at < requests; at++) {
      times.bare.push((await ask(bare, 1)).firstMs);
      times.led.push((await ask(led, 1)).firstMs);
    }
    first.push(times);
    const direct = await stream(bare, chunks);
    const through = await stream(led, chunks);
    lost += direct.bytes - through.bytes;
    whole.push({ bare: direct.ms, led: through.ms });
  }
  const added = (part: number): number[] =>
    first.map((times) => quantile(times.led, part) - quantile(times.bare, part));
  const bareMs = (part: number) => ({
    what: "bare",
    value: median(first.map((times) => quantile(times.bare, part))),
  });
  const row = { id: "q", unit: "ms" };
  return [
    toRow({
      ...row,
      what: "added time to the first byte, p50",
      rounds: added(0.5),
      target: "≤ 2 ms",
      note: `bare: ${bareMs(0.5).value.toFixed(2)} ms`,
      reached: ({ value }) => value <= 2,
    }),
    toRow({
      ...row,
      what: "added time to the first byte, p99",
      rounds: added(0.99),
      target: "≤ 10 ms",
      note: `bare: ${bareMs(0.99).value.toFixed(2)} ms`,
      reached: ({ value }) => value <= 10,
    }),
    toRow({
      ...row,
      what: `${STREAMS} streams of ${chunks} chunks, at most ${PER_SECOND}/s each`,
      rounds: whole.map(({ led: ms }) => ms),
      against: { what: "bare", value: median(whole.map(({ bare: ms }) => ms)) },
    }),
    toRow({
      id: "q",
      unit: "bytes",
      what: "lost of these streams",
      rounds: [lost],
      target: "0",
      reached: ({ value }) => value === 0,
    }),
  ];
}

async function stream(target: Target, count: number): Promise<{ ms: number; bytes: number }> {
  const begun = performance.now();
  const all = await Promise.all(Array.from({ length: STREAMS }, () => ask(target, count)));
  return { ms: performance.now() - begun, bytes: all.reduce((sum, { bytes }) => sum + bytes, 0) };
}

function ask({ url, headers }: Target, count: number): Promise<{ firstMs: number; bytes: number }> {
  const begun = performance.now();
  return new Promise((resolve, reject) => {
    const outgoing = request(url, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
    });
    outgoing.on("error", reject);
    outgoing.on("response", (answer) => {
      let [bytes, firstMs] = [0, 0];
      answer.on("data", (chunk: Buffer) => {
        if (bytes === 0) firstMs = performance.now() - begun;
        bytes += chunk.length;
      });
      answer.on("error", reject);
      answer.on("end", () => {
        if (answer.statusCode === 200) resolve({ firstMs, bytes });
        else reject(new Error(`the answer has the status ${answer.statusCode}`));
      });
    });
    outgoing.end(JSON.stringify({ model: "m", stream: true, count, perSecond: PER_SECOND }));
  });
}

/** The real program, as a local sandbox starts it. */
function startGateway(
  { port, fd, close }: Listener,
  { upstream, desk, folder }: { upstream: string; desk: string; folder: string },
): ChildProcess {
  const route = {
    id: "model",
    upstream,
    provider: "bench",
    auth: { header: "authorization", scheme: "Bearer" },
  };
  const launch = { routes: [route], desk: { url: desk, token: DESK_TOKEN } };
  const settings = { patterns: [], graceMs: 0, gateway: { launch, records: join(folder, "records"), port } };
  const child = spawn(process.execPath, [join(ROOT, "dist/agents/egress-host.js")], {
    cwd: folder,
    env: { PATH: process.env["PATH"] ?? "", SLUICE_BRIDGE: JSON.stringify(settings) },
    stdio: ["pipe", "ignore", "inherit", fd],
  });
  close();
  return child;
}

interface Listener {
  readonly port: number;
  readonly fd: number;
  close(): void;
}

async function listen(): Promise<Listener> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { fd } = (server as unknown as { _handle: { fd: number } })._handle;
  return { port: (server.address() as AddressInfo).port, fd, close: () => server.close() };
}

async function openDesk(): Promise<{ url: string; close(): void }> {
  const server = createHttpServer((incoming, outgoing) => {
    const nonce = String(incoming.headers["sluice-nonce"]);
    const given = (incoming.headers.authorization ?? "").replace("Bearer ", "");
    if (!isProof(given, DESK_TOKEN, nonce)) return void outgoing.writeHead(401).end();
    outgoing.end(encrypt({ keys: { model: "a key" } }, DESK_TOKEN, nonce));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const close = (): void => {
    server.closeAllConnections();
    server.close();
  };
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, close };
}
