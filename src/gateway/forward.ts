import { randomBytes } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Readable } from "node:stream";
import type { Usage } from "../contract/index.ts";
import { AnswerReader } from "./answer-reader.ts";
import { type Bodies, parseBody } from "./body.ts";
import { type Headers, readRate, toAnswerHeaders, toRequestHeaders } from "./headers.ts";
import { countTokens, estimateUsage } from "./limits/amounts.ts";
import type { Entry } from "./limits/entry.ts";
import type { Ledger } from "./limits/ledger.ts";
import type { Call } from "./paths.ts";
import type { RateLimiter } from "./limits/rates.ts";
import type { RateLimit, RecordWriter, ServedBy } from "./record.ts";
import { refuse, Refusal } from "./refusal.ts";
import type { RetryTrace } from "./retry-trace.ts";
import { defined } from "../contract/own-keys.ts";
import type { RequestFacts } from "./wire.ts";

/** A request that may pass, read to its end. */
export interface Exchange {
  /** The id of the request in the log. */
  readonly id: string;
  readonly call: Call;
  readonly method: string;
  /** Without credentials, and without headers about the connection. */
  readonly headers: Headers;
  /** The agent's own bytes. */
  readonly body: Buffer;
  readonly facts: RequestFacts;
}

/** An answer on its way to the agent. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Readable;
  readonly servedBy: ServedBy;
  /** The name of the model that the provider got, if it is not known by the request. */
  readonly model?: string;
}

/** Answers requests: the model provider, or something in its place. A `Refusal` is answered in the wire's own form. */
export interface Answerer {
  answer(exchange: Exchange, options: AnswerOptions): Promise<Answer>;
}

export interface AnswerOptions {
  readonly signal: AbortSignal;
  /** Resolves when the budget still allows a request that has waited. Call it before a request is sent again. */
  readonly recheck?: () => Promise<void>;
}

export interface ForwardOptions {
  readonly answerer: Answerer;
  readonly records: RecordWriter;
  readonly retries: RetryTrace;
  readonly bodies: Bodies;
  /** Holds requests that the session's budget does not allow. */
  readonly ledger?: Ledger | undefined;
  /** Absent where a recording answers: nobody pays for it. */
  readonly rates?: RateLimiter | undefined;
  readonly now?: () => number;
}

/** Forwards one request and its answer unchanged, and records what it reads of both. */
export async function forward(
  call: Call,
  request: IncomingMessage,
  response: ServerResponse,
  options: ForwardOptions,
): Promise<void> {
  const { body, release } = await options.bodies.read(request);
  response.once("close", release);
  // The agent has gone while its request was read.
  if (response.closed) return release();
  const { headers } = request;
  const facts = readFacts(call, headers, body);
  if (call.isModelRequest) refuseUnmeasured(facts, options.records);
  const exchange: Exchange = {
    id: `mreq_${randomBytes(9).toString("hex")}`,
    call,
    method: request.method ?? "POST",
    headers: toRequestHeaders(request),
    body,
    facts,
  };
  const passage = new Passage(exchange, options);
  const abort = new AbortController();
  response.once("close", () => {
    if (response.writableFinished) return;
    abort.abort();
    passage.end("cancelled");
  });
  try {
    const { signal } = abort;
    const entry = call.isModelRequest ? await options.ledger?.admit(exchange, signal) : undefined;
    if (signal.aborted) return entry?.ended();
    passage.start(entry, signal);
    const recheck = async (): Promise<void> => entry?.unsent(signal);
    if (call.isModelRequest && (await options.rates?.admit(exchange.id, signal))) await recheck();
    passage.sent();
    const answer = await options.answerer.answer(exchange, { signal, recheck });
    await passage.through(answer, response);
  } catch (error) {
    if (abort.signal.aborted) return;
    passage.fail(error);
    if (response.headersSent) return void response.destroy();
    refuse(response, call.wire, error);
  }
}

/** Refuses a request whose cost nobody would know. */
function refuseUnmeasured({ isBackground }: RequestFacts, records: RecordWriter): void {
  if (isBackground === true)
    throw new Refusal(403, "background", "sluice: a request in the background cannot be measured.");
  if (!records.isFull()) return;
  const text =
    "sluice: the file of this session's model requests is full, and a request that is not recorded does not pass. Go on in another session.";
  throw new Refusal(503, "records_full", text);
}

function readFacts(call: Call, headers: IncomingMessage["headers"], body: Buffer): RequestFacts {
  const parsed = call.isModelRequest || body.length > 0 ? parseBody(body) : {};
  return call.wire.readRequest({ path: call.path.split("?", 1)[0] ?? "", headers, body: parsed });
}

/** One request between its start and its one end, as the records tell it. */
class Passage {
  readonly #exchange: Exchange;
  readonly #options: ForwardOptions;
  readonly #began = performance.now();
  #ttft: number | undefined;
  #status: number | undefined;
  #servedBy: ServedBy = "provider";
  #sent: string | undefined;
  #rate: RateLimit | undefined;
  #reader: AnswerReader | undefined;
  #out = 0;
  #isOver = true;
  #isSent = false;
  #entry: Entry | undefined;
  #signal: AbortSignal | undefined;

  constructor(exchange: Exchange, options: ForwardOptions) {
    this.#exchange = exchange;
    this.#options = options;
  }

  start(entry: Entry | undefined, signal: AbortSignal): void {
    this.#entry = entry;
    this.#signal = signal;
    if (!this.#exchange.call.isModelRequest) return;
    this.#isOver = false;
    const { id, call, facts, body } = this.#exchange;
    const { model, kind, agentId: agent, sessionId: session } = facts;
    const { attempt, retryOf } = this.#options.retries.attemptOf(body, facts.attempt);
    const end = this.#options.records.write({
      type: "started",
      id,
      time: this.#time(),
      wire: call.wire.id,
      provider: call.route.provider,
      ...defined({ model, kind, agent, session, attempt, retryOf }),
    });
    entry?.started(end);
  }

  /** From here on the provider may have the request. */
  sent(): void {
    this.#isSent = true;
  }

  async through(answer: Answer, response: ServerResponse): Promise<void> {
    const { call } = this.#exchange;
    this.#status = answer.status;
    this.#servedBy = answer.servedBy;
    this.#sent = answer.model;
    this.#rate = readRate(answer.headers, this.#time());
    const coding = answer.headers["content-encoding"]?.[0] ?? "identity";
    // A compressed answer passes unread.
    this.#reader =
      coding === "identity" ? new AnswerReader(call.wire, answer.headers["content-type"]?.[0]) : undefined;
    const length = Number(answer.headers["content-length"]?.[0] ?? Number.NaN);
    response.writeHead(answer.status, toAnswerHeaders(answer.headers));
    response.flushHeaders();
    for await (const chunk of answer.body as AsyncIterable<Buffer>) {
      this.#read(chunk, length);
      const { facts = {}, spoken = 0 } = this.#reader ?? {};
      if (this.#signal && !this.#isOver) await this.#entry?.passed(facts, spoken, this.#signal);
      if (response.destroyed) return void answer.body.destroy();
      if (!response.write(chunk)) await drained(response);
    }
    this.#reader?.end();
    this.end();
    response.end();
  }

  /** Reads a chunk before it goes on, so that the log tells the end of an answer before the agent can know it. */
  #read(chunk: Buffer, length: number): void {
    if (this.#ttft === undefined) {
      this.#ttft = this.#elapsed();
      if (!this.#isOver)
        this.#options.records.write({
          type: "first",
          id: this.#exchange.id,
          time: this.#time(),
          ms: this.#ttft,
        });
    }
    this.#out += chunk.length;
    this.#reader?.write(chunk);
    if (this.#out === length) this.#reader?.end();
    if (this.#reader?.facts.isDone === true || this.#out === length) this.end();
  }

  fail(error: unknown): void {
    if (error instanceof Refusal) this.#status ??= error.status;
    const isMiss = error instanceof Refusal && error.isFinal;
    if (isMiss) this.#servedBy = "cassette";
    this.end(
      error instanceof Refusal ? error.code : this.#status === undefined ? "unreachable" : "cut",
      isMiss ? error.message : undefined,
    );
  }

  /** Records the end, once. */
  end(why?: string, detail?: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const { id, body, call } = this.#exchange;
    const { facts = {}, spoken = 0 } = this.#reader ?? {};
    // An API may tell its usage at the end of a stream, or not at all. A request that the agent breaks off is paid.
    const isPaid = this.#servedBy !== "cassette";
    const isUnheard = why === "cancelled" && this.#isSent && isPaid && facts.usage === undefined;
    const isTold = !isUnheard && (spoken === 0 || (why === undefined && facts.usage !== undefined));
    const usage = isTold ? facts.usage : estimateUsage(facts, body, spoken);
    const status = this.#status;
    const sent = this.#sent ?? this.#exchange.facts.model;
    const model = facts.model ?? sent;
    const failed =
      why ?? facts.error ?? (status !== undefined && status >= 400 ? `status_${status}` : undefined);
    this.#options.retries.ended(id, body, { isFailed: failed !== undefined });
    const position = this.#options.records.write({
      type: "ended",
      id,
      time: this.#time(),
      wire: call.wire.id,
      provider: call.route.provider,
      ms: this.#elapsed(),
      in: body.length,
      out: this.#out,
      served: this.#servedBy,
      ...defined({
        ttft: this.#ttft,
        status,
        model,
        asked: model === sent ? undefined : sent,
        agent: this.#exchange.facts.agentId,
        session: this.#exchange.facts.sessionId,
        response: facts.responseId,
        usage: usage && withoutZeros(usage),
        estimated: isTold ? undefined : (true as const),
        stop: facts.stopReason,
        error: failed,
        detail,
        rate: this.#rate,
      }),
    });
    // A recorded answer has tokens, and costs nothing.
    if (isPaid) this.#options.rates?.count(usage && countTokens(usage));
    this.#entry?.ended(position, usage && { usage, models: isPaid ? [model, sent] : [] });
  }

  #elapsed(): number {
    return Math.round((performance.now() - this.#began) * 10) / 10;
  }

  #time(): number {
    return this.#options.now?.() ?? Date.now();
  }
}

/** Input and output are always included; the other counts only above zero. */
function withoutZeros(usage: Usage): Usage {
  const kept = Object.entries(usage).filter(
    ([name, count]) => count !== 0 || name === "input_tokens" || name === "output_tokens",
  );
  return Object.fromEntries(kept);
}

/** Resolves when the response takes more bytes, or is closed. */
function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      response.off("drain", done).off("close", done);
      resolve();
    };
    response.on("drain", done).on("close", done);
  });
}
