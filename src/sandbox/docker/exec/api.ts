import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { request, type IncomingMessage, type RequestOptions } from "node:http";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
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

interface ExecState {
  readonly Running: boolean;
  readonly ExitCode: number | null;
}

export async function inspectExec(address: EngineAddress, id: string): Promise<ExecState> {
  return (await callEngine(address, "GET", `/exec/${id}/json`)) as ExecState;
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

function toRefusal(response: IncomingMessage, text: string): Error {
  let message = text.trim();
  try {
    message = (JSON.parse(text) as { message?: string }).message ?? message;
  } catch {
    // Not every engine answers every error in JSON.
  }
  return new Error(message || `HTTP ${response.statusCode}`);
}

/** The exit code of a command that has ended; undefined where the engine no longer knows. */
export async function readExitCode(address: EngineAddress, id: string): Promise<number | undefined> {
  for (let tries = 0; tries < 200; tries++) {
    const found = await inspectExec(address, id).catch(() => undefined);
    if (found === undefined) return undefined;
    if (!found.Running) return found.ExitCode ?? undefined;
    await sleep(10);
  }
  return undefined;
}

/** The order to the program `exec/main.ts` to run a command in a container. It is a file, because it holds secrets. */
interface ExecTicket {
  readonly id: string;
  readonly address: EngineAddress;
  readonly spec: ExecSpec;
  /** The first line of the command's stdin. */
  readonly order?: string;
}

/** The outcome of a ticket, stored under the process group of the program that took it. */
export interface ExecReport {
  readonly ticket: string;
  /** The pid, and process group, in the container. */
  readonly pid?: number;
  /** Set where the image has no such program. */
  readonly missing?: boolean;
  readonly error?: string;
}

export async function writeTicket(folder: string, ticket: ExecTicket): Promise<string> {
  const file = join(folder, `${ticket.id}.ticket`);
  await writeFile(file, JSON.stringify(ticket), { mode: 0o600, flag: "wx" });
  return file;
}

/** Reads a ticket and removes it: it is valid once. */
export async function takeTicket(file: string): Promise<ExecTicket> {
  const text = await readFile(file, "utf8");
  await rm(file);
  return JSON.parse(text) as ExecTicket;
}

export async function writeReport(folder: string, group: number, report: ExecReport): Promise<void> {
  const file = join(folder, String(group));
  await writeFile(`${file}.new`, JSON.stringify(report), { mode: 0o600 });
  await rename(`${file}.new`, file);
}

export async function readReport(folder: string, group: number): Promise<ExecReport | undefined> {
  const text = await readFile(join(folder, String(group)), "utf8").catch(() => undefined);
  return text === undefined ? undefined : (JSON.parse(text) as ExecReport);
}

const HEADER_BYTES = 8;

interface FrameSink {
  stdout(chunk: Buffer): void;
  stderr(chunk: Buffer): void;
}

/** Splits the one stream in which an engine sends both outputs of a command. */
export class FrameSplitter {
  readonly #sink: FrameSink;
  #header = Buffer.alloc(0);
  #isStderr = false;
  #left = 0;

  constructor(sink: FrameSink) {
    this.#sink = sink;
  }

  push(chunk: Buffer): void {
    let rest = chunk;
    while (rest.length > 0) rest = this.#left > 0 ? this.#takeBody(rest) : this.#takeHeader(rest);
  }

  #takeBody(chunk: Buffer): Buffer {
    const body = chunk.subarray(0, this.#left);
    this.#left -= body.length;
    if (this.#isStderr) this.#sink.stderr(body);
    else this.#sink.stdout(body);
    return chunk.subarray(body.length);
  }

  #takeHeader(chunk: Buffer): Buffer {
    const missing = HEADER_BYTES - this.#header.length;
    this.#header = Buffer.concat([this.#header, chunk.subarray(0, missing)]);
    if (this.#header.length === HEADER_BYTES) {
      this.#isStderr = this.#header[0] === 2;
      this.#left = this.#header.readUInt32BE(4);
      this.#header = Buffer.alloc(0);
    }
    return chunk.subarray(missing);
  }
}

const NEWLINE = 0x0a;

/** Reads the number in the first line of stdout, which is the shim's. All output after it is the command's. */
export class FirstLine {
  readonly #onNumber: (number: number) => void;
  #text = "";
  #isRead = false;

  constructor(onNumber: (number: number) => void) {
    this.#onNumber = onNumber;
  }

  get isRead(): boolean {
    return this.#isRead;
  }

  /** The part of a stdout chunk that belongs to the command. */
  strip(chunk: Buffer): Buffer {
    if (this.#isRead) return chunk;
    const end = chunk.indexOf(NEWLINE);
    this.#text += chunk.subarray(0, end === -1 ? undefined : end).toString("latin1");
    if (end === -1) return chunk.subarray(chunk.length);
    this.#isRead = true;
    this.#onNumber(Number(this.#text));
    return chunk.subarray(end + 1);
  }
}
