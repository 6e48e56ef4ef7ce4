import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { type IncomingMessage, request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { TOKEN_VARIABLE, URL_VARIABLE } from "../port.ts";

interface CallOptions {
  readonly signal: AbortSignal;
  /** Called every few seconds while the call waits. */
  readonly progress: (count: number) => void;
}

const PROGRESS_MS = 5_000;
const WITHDRAW_MS = 5_000;

/** Calls a tool. Each repeated request has the same call id, so the server makes only one call. */
export async function callTool(
  access: Access,
  tool: { name: string; input: unknown },
  { signal, progress }: CallOptions,
): Promise<unknown> {
  const path = `calls/${randomUUID()}`;
  const waiting = new AbortController();
  void tick(progress, waiting.signal);
  try {
    for (;;) {
      const { status, body } = await ask(access, "PUT", path, { body: tool, signal });
      if (status === 202) continue;
      return status === 200 ? body : failed(toReason(status, body));
    }
  } catch (error) {
    if (signal.aborted) await withdraw(access, path);
    throw error;
  } finally {
    waiting.abort();
  }
}

/** Reports progress until the signal aborts: clients count their time limit from the last report. */
async function tick(progress: (count: number) => void, signal: AbortSignal): Promise<void> {
  for (let count = 1; ; count += 1) {
    await sleep(PROGRESS_MS, undefined, { signal }).catch(() => {});
    if (signal.aborted) return;
    progress(count);
  }
}

async function withdraw(access: Access, path: string): Promise<void> {
  await ask(access, "DELETE", path, { signal: AbortSignal.timeout(WITHDRAW_MS) }).catch(() => {});
}

function toReason(status: number, body: Readonly<Record<string, unknown>>): string {
  if (status === 401) return "The application's tools are not available to this run.";
  const { error } = body;
  return typeof error === "string" ? error : `The application's tools answered ${status}.`;
}

function failed(text: string): unknown {
  return { content: [{ type: "text", text }], isError: true };
}

interface Asked {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
}

interface AskOptions {
  readonly body?: unknown;
  readonly signal: AbortSignal;
}

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 2_000;

/**
 * Sends a request to the tool server. Repeats it while there is no usable answer (none, not JSON, or a 5xx), until the
 * signal aborts.
 */
export async function ask(access: Access, method: string, path: string, options: AskOptions): Promise<Asked> {
  for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
    const asked = await askOnce(access, method, path, options).catch(() => undefined);
    options.signal.throwIfAborted();
    if (asked && asked.status < 500) return asked;
    await sleep(pause, undefined, { signal: options.signal });
  }
}

async function askOnce(
  { url, token }: Access,
  method: string,
  path: string,
  { body, signal }: AskOptions,
): Promise<Asked> {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    request(`${url}/${path}`, { method, headers, signal, agent: false }, resolve)
      .on("error", reject)
      .end(body === undefined ? undefined : JSON.stringify(body));
  });
  const chunks: Buffer[] = [];
  for await (const chunk of response as AsyncIterable<Buffer>) chunks.push(chunk);
  const text = Buffer.concat(chunks).toString("utf8");
  return { status: response.statusCode ?? 0, body: JSON.parse(text) as Asked["body"] };
}

export interface Access {
  readonly url: string;
  readonly token: string;
}

type Variables = Readonly<Record<string, string | undefined>>;

/**
 * The access to the tools, from this program's environment. Some agents do not pass the variables on: then it is read
 * from the environment of a process above.
 */
export function findAccess(env: Variables, parent: number): Access | undefined {
  const own = toAccess(env);
  if (own) return own;
  // The first process counts, too: an agent may be that of its own namespace.
  for (let pid = parent; pid >= 1; pid = readParent(pid)) {
    const inherited = toAccess(readEnvironment(pid));
    if (inherited) return inherited;
  }
  return undefined;
}

function toAccess(env: Variables): Access | undefined {
  const { [URL_VARIABLE]: url = "", [TOKEN_VARIABLE]: token = "" } = env;
  // Some CLIs do not replace references to variables: then the values are the references themselves.
  return URL.canParse(url) && /^[0-9a-f]+$/.test(token) ? { url, token } : undefined;
}

function readEnvironment(pid: number): Variables {
  const entries = readText(`/proc/${pid}/environ`).split("\0");
  return Object.fromEntries(
    entries.map((entry) => [entry.slice(0, entry.indexOf("=")), entry.slice(entry.indexOf("=") + 1)]),
  ) as Variables;
}

function readParent(pid: number): number {
  return Number(/^PPid:\s+(\d+)$/m.exec(readText(`/proc/${pid}/status`))?.[1] ?? 0);
}

function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
