import { request, type IncomingMessage, type RequestOptions } from "node:http";
import type { Duplex } from "node:stream";
import type { EngineAddress } from "../engine.ts";

/** A command to run in a running container. */
export interface ExecSpec {
  readonly container: string;
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly user: string;
}

/** The container, user, folder and variables of a command. */
export type ExecTarget = Omit<ExecSpec, "argv">;

/** A started command. Its stream gives both outputs in frames, and takes the input. */
interface StartedExec {
  readonly id: string;
  readonly stream: Duplex;
}

class EngineRefusal extends Error {
  readonly statusCode: number;

  constructor(statusCode: number, message: string) {
    super(message);
    this.statusCode = statusCode;
  }
}

/** Starts a command and takes over its connection. The variables go in the body, where no process list shows them. */
export async function startExec(address: EngineAddress, spec: ExecSpec): Promise<StartedExec> {
  const { Id: id } = (await callEngine(address, "POST", `/containers/${spec.container}/exec`, {
    AttachStdin: true,
    AttachStdout: true,
    AttachStderr: true,
    Tty: false,
    Cmd: spec.argv,
    Env: Object.entries(spec.env).map(([name, value]) => `${name}=${value}`),
    WorkingDir: spec.cwd,
    User: spec.user,
  })) as { Id: string };
  return { id, stream: await hijack(address, `/exec/${id}/start`, { Detach: false, Tty: false }) };
}

export async function inspectExec(
  address: EngineAddress,
  id: string,
): Promise<{ Running: boolean; ExitCode: number | null }> {
  return (await callEngine(address, "GET", `/exec/${id}/json`)) as {
    Running: boolean;
    ExitCode: number | null;
  };
}

async function callEngine(
  address: EngineAddress,
  method: string,
  path: string,
  body?: unknown,
): Promise<unknown> {
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    send(address, { method, path }, body).on("response", resolve).on("error", reject);
  });
  const text = await readText(response);
  if ((response.statusCode ?? 500) >= 300) throw toRefusal(response, text);
  return JSON.parse(text);
}

function hijack(address: EngineAddress, path: string, body: unknown): Promise<Duplex> {
  const headers = { connection: "Upgrade", upgrade: "tcp" };
  return new Promise((resolve, reject) => {
    send(address, { method: "POST", path, headers }, body)
      .on("upgrade", (_response, socket, head) => {
        if (head.length > 0) socket.unshift(head);
        resolve(socket);
      })
      .on("response", (response) => {
        readText(response).then((text) => reject(toRefusal(response, text)), reject);
      })
      .on("error", reject);
  });
}

function send(address: EngineAddress, options: RequestOptions, body: unknown): ReturnType<typeof request> {
  const text = body === undefined ? "" : JSON.stringify(body);
  const headers = {
    host: "docker",
    "content-type": "application/json",
    "content-length": Buffer.byteLength(text),
    ...(options.headers as Record<string, string> | undefined),
  };
  const sent = request({ ...address, ...options, headers, agent: false });
  sent.end(text);
  return sent;
}

async function readText(response: IncomingMessage): Promise<string> {
  let text = "";
  response.setEncoding("utf8");
  for await (const chunk of response) text += chunk as string;
  return text;
}

function toRefusal(response: IncomingMessage, text: string): EngineRefusal {
  let message = text.trim();
  try {
    message = (JSON.parse(text) as { message?: string }).message ?? message;
  } catch {
    // Not every engine answers every error in JSON.
  }
  return new EngineRefusal(response.statusCode ?? 500, message || `HTTP ${response.statusCode}`);
}

/** The exit code of a command that has ended; undefined where the engine no longer knows. */
export async function readExitCode(address: EngineAddress, id: string): Promise<number | undefined> {
  for (let tries = 0; tries < 200; tries++) {
    const found = await inspectExec(address, id).catch(() => undefined);
    if (found === undefined) return undefined;
    if (!found.Running) return found.ExitCode ?? undefined;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  return undefined;
}
