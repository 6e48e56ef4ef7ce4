import type {
  AdapterYieldChunk,
  DefaultMessageMetadataByModality,
  ModelMessage,
  StreamChunk,
  TextOptions,
} from "@tanstack/ai";
import {
  BaseTextAdapter,
  type StructuredOutputOptions,
  type StructuredOutputResult,
} from "@tanstack/ai/adapters";
import { restoreInboundChunk } from "@tanstack/ai/client";
import type { Transport } from "../client/transport.ts";
import type { ToolReply } from "../contract/index.ts";
import { SandboxDebug } from "./debug.ts";
import { RunCounter, type RunRequest, type SluiceModelOptions, toRunRequest } from "./request.ts";
import { createTransport, followRun, offsetOf, pathOf, type SluiceServer, withOffset } from "./run.ts";
import {
  executeTool,
  type RequestedCall,
  runsElsewhere,
  runsHere,
  toAwaitingTool,
  toRequestedCall,
} from "./tools.ts";

export interface SluiceTextOptions extends SluiceServer {}

type Modalities = readonly ["text", "image", "document"];

/** A coding agent in a sandbox as the model of `chat()`. */
export function sluiceText(options: SluiceTextOptions): SluiceTextAdapter {
  return new SluiceTextAdapter(options);
}

export class SluiceTextAdapter extends BaseTextAdapter<
  string,
  SluiceModelOptions,
  Modalities,
  DefaultMessageMetadataByModality
> {
  readonly name = "sluice";
  readonly #server: SluiceServer;
  readonly #transport: Transport;
  readonly #runs = new RunCounter();

  constructor(options: SluiceTextOptions) {
    super({ baseUrl: options.baseUrl }, options.agent);
    this.#server = options;
    this.#transport = createTransport(options);
  }

  async *chatStream(options: TextOptions<SluiceModelOptions>): AsyncGenerator<AdapterYieldChunk, void> {
    const request = toRunRequest(options, this.#runs.count(options.runId, options.messages));
    const { logger } = options;
    logger.request(`sluice: ${this.#server.agent} run ${request.runId}`, { threadId: request.threadId });
    const abort = new AbortController();
    const stop = (): void => {
      abort.abort();
      this.#stop(request);
    };
    const given = signalOf(options);
    given?.addEventListener("abort", stop, { once: true });
    if (given?.aborted) stop();
    const debug = new SandboxDebug({ transport: this.#transport, logger, session: request.threadId });
    try {
      await debug.begin();
      for await (const chunk of this.#run(request, options, abort.signal)) {
        debug.reached(offsetOf(chunk));
        logger.provider(`sluice: ${chunk.type}`, { chunk });
        yield toYield(chunk, options.runId);
      }
    } catch (error) {
      logger.errors("sluice: the run could not be read", { error });
      yield toFailure(error, request);
    } finally {
      await debug.end();
      given?.removeEventListener("abort", stop);
      abort.abort();
    }
  }

  /** Asks the agent for its result in the schema's form. */
  async structuredOutput({
    chatOptions,
    outputSchema,
  }: StructuredOutputOptions<SluiceModelOptions>): Promise<StructuredOutputResult<unknown>> {
    const runId = `${chatOptions.runId ?? crypto.randomUUID()}.json`;
    const messages = withSchema(chatOptions.messages, outputSchema);
    const texts = new Map<string, string>();
    for await (const chunk of this.chatStream({ ...chatOptions, messages, runId, tools: [] })) {
      if (chunk.type === "RUN_ERROR") throw new Error(chunk.message);
      if (chunk.type !== "TEXT_MESSAGE_CONTENT") continue;
      texts.set(chunk.messageId, `${texts.get(chunk.messageId) ?? ""}${chunk.delta}`);
    }
    const rawText = [...texts.values()].at(-1) ?? "";
    return { data: JSON.parse(unfence(rawText)) as unknown, rawText };
  }

  /** Yields the run's chunks, and the events that the application's tools emit meanwhile. */
  #run(
    request: RunRequest,
    options: TextOptions<SluiceModelOptions>,
    signal: AbortSignal,
  ): AsyncIterable<StreamChunk> {
    const mailbox = new Mailbox<StreamChunk>();
    const echoes: string[] = [];
    const run = async (call: RequestedCall): Promise<void> => {
      const tool = options.tools?.find(({ name }) => name === call.toolName);
      if (!runsHere(tool)) return;
      const emit = (name: string, value: unknown): void => {
        echoes.push(echoOf(name, value));
        void mailbox.put({ type: "CUSTOM", name, value, timestamp: Date.now() } as StreamChunk);
      };
      const reply = await executeTool(tool, call, { context: options.context, signal, emit });
      await this.#reply(call, reply, signal);
    };
    const read = async (): Promise<void> => {
      const call = { method: "POST", json: request.body, query: { bridged: true }, signal };
      for await (const { id, chunk } of followRun(this.#transport, pathOf(this.#server), call)) {
        if (isEcho(chunk, echoes)) continue;
        const requested = toRequestedCall(chunk);
        if (!requested) await mailbox.put(withOffset(chunk, id));
        else if (runsElsewhere(requested, options.tools)) return mailbox.put(toAwaitingTool(request));
        else void run(requested).catch((error: unknown) => mailbox.fail(error));
      }
    };
    read().then(
      () => mailbox.close(),
      (error: unknown) => mailbox.fail(error),
    );
    return mailbox;
  }

  async #reply(
    { sessionId, requestId }: RequestedCall,
    reply: ToolReply,
    signal: AbortSignal,
  ): Promise<void> {
    const session = encodeURIComponent(sessionId);
    const path = `/v1/sessions/${session}/tools/${encodeURIComponent(requestId)}/reply`;
    await this.#transport.done(path, { method: "POST", json: reply, signal });
  }

  #stop({ threadId, runId }: RunRequest): void {
    const query = { threadId, runId };
    // Not awaited, so that the abort takes effect at once.
    void this.#transport.done(pathOf(this.#server), { method: "DELETE", query }).catch(() => {});
  }
}

function signalOf({ abortController, request }: TextOptions<SluiceModelOptions>): AbortSignal | undefined {
  return abortController?.signal ?? request?.signal ?? undefined;
}

/** Restores a chunk for TanStack's engine, which has one run id for all runs of one `chat()` call. */
function toYield(chunk: StreamChunk, runId: string | undefined): AdapterYieldChunk {
  const restored = restoreInboundChunk(chunk);
  if (runId !== undefined && "runId" in restored) restored.runId = runId;
  return restored;
}

/** Adds the request for the schema to the user's last message, or as a new message after the agent's. */
function withSchema(messages: readonly ModelMessage[], schema: unknown): ModelMessage[] {
  const request =
    "Give the result of our conversation as JSON that fits this JSON Schema. " +
    `Answer with the JSON alone, without any other word:\n${JSON.stringify(schema)}`;
  const last = messages.at(-1);
  if (last?.role !== "user") return [...messages, { role: "user", content: request }];
  const { content } = last;
  const words = Array.isArray(content) ? content : [{ type: "text" as const, content: content ?? "" }];
  return [...messages.slice(0, -1), { ...last, content: [...words, { type: "text", content: request }] }];
}

/** Whether the log repeats a tool's event, which was yielded when the tool emitted it. */
function isEcho(chunk: StreamChunk, echoes: string[]): boolean {
  if (chunk.type !== "CUSTOM") return false;
  const at = echoes.indexOf(echoOf(chunk.name, chunk.value));
  if (at === -1) return false;
  echoes.splice(at, 1);
  return true;
}

function echoOf(name: string, value: unknown): string {
  return JSON.stringify([name, value ?? null]);
}

function toFailure(error: unknown, { threadId, runId }: RunRequest): AdapterYieldChunk {
  const { message, code } = error as { message?: string; code?: string };
  return {
    type: "RUN_ERROR",
    message: message ?? String(error),
    ...(code === undefined ? {} : { code }),
    threadId,
    runId,
    timestamp: Date.now(),
  } as AdapterYieldChunk;
}

function unfence(text: string): string {
  return /^```(?:json)?\s*\n([\s\S]*?)\n```\s*$/.exec(text.trim())?.[1] ?? text;
}

/** The count of items at which writers have to wait. */
const HIGH_WATER = 256;

/** A queue with several writers and one reader. */
export class Mailbox<T> implements AsyncIterable<T> {
  readonly #waiting: T[] = [];
  #end: { readonly error?: unknown } | undefined;
  #wake: () => void = () => {};
  #pausedWriters: (() => void)[] = [];

  /** Resolves when there is room for more. */
  async put(item: T): Promise<void> {
    if (this.#end) return;
    this.#waiting.push(item);
    this.#wake();
    if (this.#waiting.length >= HIGH_WATER)
      await new Promise<void>((resolve) => this.#pausedWriters.push(resolve));
  }

  close(): void {
    this.#finish({});
  }

  fail(error: unknown): void {
    this.#finish({ error });
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void> {
    try {
      for (;;) {
        const item = this.#waiting.shift();
        if (item !== undefined) {
          if (this.#waiting.length < HIGH_WATER / 2) this.#resumeWriters();
          yield item;
          continue;
        }
        if (this.#end && "error" in this.#end) throw this.#end.error;
        if (this.#end) return;
        await new Promise<void>((resolve) => (this.#wake = resolve));
      }
    } finally {
      // The reader has gone, so writers must not wait.
      this.#finish({});
    }
  }

  #finish(end: { readonly error?: unknown }): void {
    this.#end ??= end;
    this.#wake();
    this.#resumeWriters();
  }

  #resumeWriters(): void {
    for (const resolve of this.#pausedWriters.splice(0)) resolve();
  }
}
