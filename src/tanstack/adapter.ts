import type {
  AdapterYieldChunk,
  DefaultMessageMetadataByModality,
  RunAgentResumeItem,
  StreamChunk,
  TextOptions,
} from "@tanstack/ai";
import {
  BaseTextAdapter,
  type StructuredOutputOptions,
  type StructuredOutputResult,
} from "@tanstack/ai/adapters";
import { restoreInboundChunk } from "@tanstack/ai/client";
import type { SessionSpec, ToolReply } from "../contract/index.ts";
import type { Transport } from "../client/transport.ts";
import { Mailbox } from "./mailbox.ts";
import { type RunRequest, toRunRequest } from "./request.ts";
import { followRun } from "./run.ts";
import { createTransport, pathOf, type SluiceServer } from "./server.ts";
import { executeTool, isOwn, isRecord, type RequestedCall, toRequestedCall } from "./tools.ts";

export interface SluiceTextOptions extends SluiceServer {}

export interface SluiceModelOptions {
  /** The agent's own id of the conversation that goes on, as `<harness>.session-id` told it. */
  readonly sessionId?: string;
  /** Answers to what the agent asked, by the ids of its interrupts: the engine of `chat()` takes only those that are its own. */
  readonly resume?: readonly RunAgentResumeItem[];
  /** What else the session should be that the first run of a thread creates: its model, its directory, its sandbox… */
  readonly session?: Partial<Omit<SessionSpec, "agent" | "fork">>;
}

type Modalities = readonly ["text", "image", "document"];

/** A coding agent in its sandbox as the model of `chat()`. */
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

  constructor(options: SluiceTextOptions) {
    super({ baseUrl: options.baseUrl }, options.agent);
    this.#server = options;
    this.#transport = createTransport(options);
  }

  async *chatStream(options: TextOptions<SluiceModelOptions>): AsyncGenerator<AdapterYieldChunk, void> {
    const request = toRunRequest(options);
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
    try {
      for await (const chunk of this.#run(request, options, abort.signal)) {
        logger.provider(`sluice: ${chunk.type}`, { chunk });
        yield toYield(chunk, options.runId);
      }
    } catch (error) {
      logger.errors("sluice: the run could not be read", { error });
      yield toFailure(error, request);
    } finally {
      given?.removeEventListener("abort", stop);
      abort.abort();
    }
  }

  /** The agent is asked for what it has come to, in the form that is wanted. */
  async structuredOutput({
    chatOptions,
    outputSchema,
  }: StructuredOutputOptions<SluiceModelOptions>): Promise<StructuredOutputResult<unknown>> {
    const content =
      "Give the result of our conversation as JSON that fits this JSON Schema. " +
      `Answer with the JSON alone, without any other word:\n${JSON.stringify(outputSchema)}`;
    const runId = `${chatOptions.runId ?? crypto.randomUUID()}.json`;
    const messages = [...chatOptions.messages, { role: "user" as const, content }];
    const texts = new Map<string, string>();
    for await (const chunk of this.chatStream({ ...chatOptions, messages, runId, tools: [] })) {
      if (chunk.type === "RUN_ERROR") throw new Error(chunk.message);
      if (chunk.type !== "TEXT_MESSAGE_CONTENT") continue;
      texts.set(chunk.messageId, `${texts.get(chunk.messageId) ?? ""}${chunk.delta}`);
    }
    const rawText = [...texts.values()].at(-1) ?? "";
    return { data: JSON.parse(unfence(rawText)) as unknown, rawText };
  }

  /** The run's chunks, and among them what the application's own tools tell while they run. */
  #run(
    request: RunRequest,
    options: TextOptions<SluiceModelOptions>,
    signal: AbortSignal,
  ): AsyncIterable<StreamChunk> {
    const mailbox = new Mailbox<StreamChunk>();
    const echoes: string[] = [];
    const run = async (call: RequestedCall): Promise<void> => {
      const tool = options.tools?.find(({ name }) => name === call.toolName);
      if (!isOwn(tool)) return;
      const emit = (name: string, value: unknown): void => {
        echoes.push(echoOf(name, value));
        mailbox.put({ type: "CUSTOM", name, value, timestamp: Date.now() } as StreamChunk);
      };
      const reply = await executeTool(tool, call, { context: options.context, signal, emit });
      await this.#reply(call, reply, signal);
    };
    const read = async (): Promise<void> => {
      const call = { method: "POST", json: request.body, query: { bridged: true }, signal };
      for await (const { id, chunk } of followRun(this.#transport, pathOf(this.#server), call)) {
        if (isEcho(chunk, echoes)) continue;
        const requested = toRequestedCall(chunk);
        if (!requested) mailbox.put(withOffset(chunk, id));
        else if (isOwn(options.tools?.find(({ name }) => name === requested.toolName)))
          void run(requested).catch((error: unknown) => mailbox.fail(error));
        else return mailbox.put(toToolTurn(request));
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
    // Nobody waits for it: who gives up does not stay to hear.
    void this.#transport.done(pathOf(this.#server), { method: "DELETE", query }).catch(() => {});
  }
}

function signalOf({ abortController, request }: TextOptions<SluiceModelOptions>): AbortSignal | undefined {
  return abortController?.signal ?? request?.signal ?? undefined;
}

/** The engine knows the run by one id, however many it came to. */
function toYield(chunk: StreamChunk, runId: string | undefined): AdapterYieldChunk {
  const restored = restoreInboundChunk(chunk);
  if (runId !== undefined && "runId" in restored) restored.runId = runId;
  return restored;
}

function withOffset(chunk: StreamChunk, offset: string | undefined): StreamChunk {
  if (offset === undefined) return chunk;
  const metadata: unknown = (chunk as { metadata?: unknown }).metadata;
  return { ...chunk, metadata: { ...(isRecord(metadata) ? metadata : {}), sluice: { offset } } };
}

/** What a tool told was heard when it told it; the log tells it again. */
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

/** A tool that is not ours to run: the engine asks whoever has it, and calls us again with the answer. */
function toToolTurn({ threadId, runId }: RunRequest): StreamChunk {
  return {
    type: "RUN_FINISHED",
    threadId,
    runId,
    timestamp: Date.now(),
    metadata: { tanstack: { finishReason: "tool_calls" } },
  } as StreamChunk;
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
