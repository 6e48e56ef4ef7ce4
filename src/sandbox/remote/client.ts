import { type Agent, request as httpRequest, type IncomingMessage, type RequestOptions } from "node:http";
import { Readable, type Duplex } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { ERRORS, SluiceError, type ErrorCode } from "../../contract/index.ts";
import { parseOthersJson } from "../../contract/json.ts";
import { decorate, DialAgent, type Dial } from "./dial.ts";

/** A silence that is longer than three signs of life: the connection is dead. */
const SILENCE_MS = 30_000;
/** How long a call that may be repeated is repeated, before its caller hears of the failure. */
const PATIENCE_MS = 20_000;
const LONGEST_PAUSE_MS = 2_000;
/** The machine may be hostile: no answer, no line and no part of a checkpoint has more bytes. */
const LONGEST = 256 * 1024 * 1024;
const LONGEST_PROBLEM = 64 * 1024;

interface CallOptions {
  readonly method?: string;
  readonly body?: unknown;
  readonly content?: AsyncIterable<Uint8Array> | Uint8Array;
  readonly epoch?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Whether the call has the same effect when it is made twice. */
  readonly repeats?: boolean;
  /** How long the answer may take. */
  readonly silenceMs?: number;
}

/**
 * Calls of a runner over streams that `dial` opens. Idle streams are kept. Agents run on the runner's machine, so its
 * answers may have any form and any length.
 */
export class RunnerClient {
  readonly #name: string;
  readonly #dial: Dial;
  readonly #longest: number;
  readonly #agent: Agent;

  constructor(name: string, dial: Dial, { longest = LONGEST }: { longest?: number } = {}) {
    this.#name = name;
    this.#dial = dial;
    this.#longest = longest;
    this.#agent = new DialAgent(dial);
  }

  /** The value of a call's JSON answer. */
  async call<T>(path: string, options: CallOptions = {}): Promise<T> {
    const once = async (): Promise<T> => {
      const response = await this.#send(path, { method: "POST", ...options });
      const text = (await this.#bytes(response, this.#longest)).toString("utf8");
      return (parseObject(text) ?? this.#nonsense("its answer is no JSON object"))["value"] as T;
    };
    return options.repeats === true ? this.#repeat(once, options.signal) : once();
  }

  /** The body of an answer, with its length. */
  async open(path: string, options: CallOptions = {}): Promise<{ size: number; content: Readable }> {
    const response = await this.#send(path, { method: "GET", ...options });
    const size = Number(response.headers["content-length"]);
    if (Number.isSafeInteger(size) && size >= 0) return { size, content: response };
    response.destroy();
    return this.#nonsense("it sent a file without a length");
  }

  /** A whole body. */
  async bytes(path: string, options: CallOptions = {}): Promise<Buffer> {
    const once = async (): Promise<Buffer> =>
      this.#bytes(await this.#send(path, { method: "GET", ...options }), this.#longest);
    return this.#repeat(once, options.signal);
  }

  /** The lines of a stream until its regular end. Fails with `sandbox_unreachable` where it is cut. */
  async *lines(path: string, options: CallOptions = {}): AsyncGenerator<unknown, void, undefined> {
    const response = await this.#send(path, { method: "GET", ...options });
    let rest: Buffer[] = [];
    let length = 0;
    try {
      for await (const chunk of response as AsyncIterable<Buffer>) {
        let begin = 0;
        for (let at = chunk.indexOf(10); at !== -1; at = chunk.indexOf(10, begin)) {
          rest.push(chunk.subarray(begin, at));
          begin = at + 1;
          const text = Buffer.concat(rest).toString("utf8");
          rest = [];
          length = 0;
          if (text === "") continue;
          const line = parseObject(text) ?? this.#nonsense("a line of its stream is no JSON object");
          if (line["end"] === true) return;
          if (line["problem"] !== undefined) throw toError(Object(line["problem"]) as Problem);
          yield line;
        }
        if (begin < chunk.length) rest.push(chunk.subarray(begin));
        length += chunk.length - begin;
        if (length > this.#longest) this.#nonsense("a line of its stream is too long");
      }
    } catch (error) {
      if (options.signal?.aborted) return;
      throw error instanceof SluiceError ? error : this.unreachable(error);
    } finally {
      response.destroy();
    }
    if (options.signal?.aborted) return;
    throw this.unreachable(new Error("the stream was cut"));
  }

  /** A connection to a port of the machine. */
  async connect(path: string, options: { epoch?: number | undefined }): Promise<Duplex> {
    const socket = await this.#dial().catch((error: unknown) => {
      throw this.unreachable(error);
    });
    return new Promise((resolve, reject) => {
      const headers = { connection: "Upgrade", upgrade: "tcp", ...toHeaders(options) };
      const request = httpRequest({ path, headers, createConnection: () => decorate(socket) });
      request.on("upgrade", (_response, upgraded, first) => {
        // Bytes that came with the answer belong to the connection.
        if (first.length > 0) upgraded.unshift(first);
        resolve(upgraded);
      });
      request.on("response", (response) => {
        socket.destroy();
        reject(new Error(`the runner answered ${response.statusCode}`));
      });
      request.on("error", (error) => reject(this.unreachable(error)));
      request.end();
    });
  }

  close(): void {
    this.#agent.destroy();
  }

  unreachable(cause: unknown): SluiceError {
    if (cause instanceof SluiceError) return cause;
    const why = cause instanceof Error ? cause.message : String(cause);
    const detail = `${this.#name} cannot be reached now: ${why}. What runs there goes on.`;
    return new SluiceError("sandbox_unreachable", detail, {}, { cause });
  }

  async #repeat<T>(once: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    const giveUpAt = performance.now() + PATIENCE_MS;
    for (let pause = 50; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
      try {
        return await once();
      } catch (error) {
        if (!isUnreachable(error) || performance.now() > giveUpAt || signal?.aborted) throw error;
        await sleep(pause, undefined, { signal: signal ?? undefined } as { signal?: AbortSignal });
      }
    }
  }

  #send(path: string, options: CallOptions): Promise<IncomingMessage> {
    const { method = "POST", body, content, signal, silenceMs = SILENCE_MS } = options;
    const bytes = content ?? (body === undefined ? undefined : Buffer.from(JSON.stringify(body)));
    const headers: Record<string, string | number> = toHeaders(options);
    if (bytes instanceof Uint8Array) headers["content-length"] = bytes.byteLength;
    else if (bytes === undefined && method !== "GET") headers["content-length"] = 0;
    const given: RequestOptions = {
      path,
      method,
      headers,
      agent: this.#agent,
      ...(signal ? { signal } : {}),
    };
    return new Promise<IncomingMessage>((resolve, reject) => {
      const request = httpRequest(given);
      const silence = watchSilence(silenceMs, () => request.destroy(new Error("it does not answer")));
      request.on("close", () => silence.stop());
      request.on("error", (error) => reject(signal?.aborted ? signal.reason : this.unreachable(error)));
      request.on("response", (response) => {
        response.on("data", silence.stir).pause();
        // Paused: the silence of a reader that is busy is not that of the machine.
        response.on("pause", silence.rest).on("resume", silence.stir);
        if (response.statusCode === 200) return resolve(response);
        this.#bytes(response, LONGEST_PROBLEM).then(
          (bytes) => reject(toError(parseProblem(bytes.toString("utf8"), response))),
          reject,
        );
      });
      if (bytes instanceof Uint8Array || bytes === undefined) request.end(bytes);
      else
        Readable.from(bytes)
          .on("error", (error) => request.destroy(error))
          .pipe(request);
    });
  }

  async #bytes(response: IncomingMessage, most: number): Promise<Buffer> {
    const chunks: Buffer[] = [];
    let size = 0;
    try {
      for await (const chunk of response as AsyncIterable<Buffer>) {
        size += chunk.length;
        if (size > most) this.#nonsense("its answer is too long");
        chunks.push(chunk);
      }
    } catch (error) {
      throw this.unreachable(error);
    }
    return Buffer.concat(chunks);
  }

  /** The other end does not keep to the protocol: a repetition would not help. */
  #nonsense(why: string): never {
    throw nonsense(`${this.#name}: ${why}`);
  }
}

/** The error for an answer that no runner of ours gives. Only the session of the sandbox hears of it. */
export function nonsense(why: string): SluiceError {
  const detail = `The runner on the sandbox's machine does not keep to its protocol (${why}). The machine may be compromised; look at it before you use it again.`;
  return new SluiceError("internal", detail);
}

function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = parseOthersJson(text);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

export function isUnreachable(error: unknown): boolean {
  return error instanceof SluiceError && error.code === "sandbox_unreachable";
}

interface Problem {
  readonly type?: unknown;
  readonly detail?: unknown;
  readonly retryable?: unknown;
  readonly [fact: string]: unknown;
}

/** The runner's error as our own. The answer comes from a machine of agents, so only known codes count. */
function toError(problem: Problem): SluiceError {
  const { type, detail, retryable } = problem;
  const facts = Object.fromEntries(Object.entries(problem).filter(([name]) => !FIELDS.has(name)));
  const code = (typeof type === "string" ? type : "").replace("urn:sluice:error:", "");
  const known = Object.hasOwn(ERRORS, code) ? (code as ErrorCode) : "internal";
  return new SluiceError(known, (typeof detail === "string" ? detail : "").slice(0, 4_096), facts, {
    retryable: retryable === true,
  });
}

const FIELDS = new Set(["type", "title", "status", "detail", "retryable"]);

function parseProblem(text: string, { statusCode }: IncomingMessage): Problem {
  return parseObject(text) ?? { detail: `The runner answered with the status ${statusCode}.` };
}

function toHeaders({ epoch }: { epoch?: number | undefined }): Record<string, string> {
  return { host: "runner", ...(epoch === undefined ? {} : { "sluice-epoch": String(epoch) }) };
}

function watchSilence(ms: number, end: () => void): { stir: () => void; rest: () => void; stop: () => void } {
  let timer = setTimeout(end, ms);
  const rest = (): void => clearTimeout(timer);
  let isStopped = false;
  return {
    rest,
    stir: () => {
      clearTimeout(timer);
      if (!isStopped) timer = setTimeout(end, ms);
    },
    stop: () => {
      isStopped = true;
      clearTimeout(timer);
    },
  };
}
