import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { type Answer, type Break, type Part, toAnswer, toTokens } from "./answer.ts";
import type { Ask } from "./ask.ts";
import { asObject, parseJson } from "./json.ts";
import { type FailCounts, respond } from "./respond.ts";
import type { Frame, HttpFailure, Wire } from "./wire.ts";
import { anthropic } from "./wires/anthropic.ts";
import { chat } from "./wires/chat.ts";
import { gemini } from "./wires/gemini.ts";
import { responses } from "./wires/responses.ts";

/** One request and its answer on the socket. */
export class Exchange {
  readonly #incoming: IncomingMessage;
  readonly #outgoing: ServerResponse;
  readonly #gone = new AbortController();

  constructor(incoming: IncomingMessage, outgoing: ServerResponse) {
    this.#incoming = incoming;
    this.#outgoing = outgoing;
    outgoing.once("close", () => this.#gone.abort());
  }

  /** Never rejects. An error becomes a 500, or a cut if the answer has begun; it is dropped if the client is gone. */
  async run(model: { counts: FailCounts; onAsked: (request: ModelRequest) => void }): Promise<void> {
    try {
      await this.#answer(model);
    } catch (error) {
      if (this.#gone.signal.aborted) return;
      if (this.#outgoing.headersSent) this.#outgoing.destroy();
      else this.#json(500, { error: { message: error instanceof Error ? error.message : String(error) } });
    }
  }

  async #answer(model: { counts: FailCounts; onAsked: (request: ModelRequest) => void }): Promise<void> {
    const { method = "GET", headers } = this.#incoming;
    const url = new URL(this.#incoming.url ?? "/", "http://localhost");
    const route = findRoute(method, url.pathname);
    const raw = await text(this.#incoming);
    const body = parseJson(raw);
    const asked = { method, path: url.pathname + url.search, body };
    if (route.kind !== "answer") {
      model.onAsked(asked);
      return this.#json(...toSideAnswer(route, raw.length));
    }
    const { wire } = route;
    const ask = wire.parse({ body: asObject(body), url, headers, bytes: raw.length });
    model.onAsked({ ...asked, wire: wire.id, model: ask.model });
    if (typeof body !== "object" || body === null)
      return this.#fail(wire.failure("terminal", "The request's body is no JSON object"));
    const response = respond(ask, model.counts);
    if ("failure" in response) {
      const { id, failure, message } = response;
      if (!ask.stream || !wire.streamed?.includes(failure)) return this.#fail(wire.failure(failure, message));
      const broken = toAnswer(ask, { id, parts: [{ do: "break", how: { fault: "failed", failure } }] });
      return this.#stream(wire.stream(ask, broken));
    }
    if (ask.stream) return this.#stream(wire.stream(ask, response));
    return this.#whole(wire, ask, response);
  }

  async #stream(frames: Iterable<Frame>): Promise<void> {
    const { signal } = this.#gone;
    this.#outgoing.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" });
    this.#outgoing.flushHeaders();
    for (const frame of frames) {
      if (signal.aborted) return;
      if ("cut" in frame) return this.#cut();
      if ("pause" in frame) await pause(frame.pause, signal);
      else if (!this.#outgoing.write(frame.text)) await once(this.#outgoing, "drain", { signal });
    }
    this.#outgoing.end();
  }

  async #whole(wire: Wire, ask: Ask, answer: Answer): Promise<void> {
    for (const part of answer.parts) {
      if (part.do === "pause") await pause(part.ms, this.#gone.signal);
      for (const how of faultsOf(part)) {
        if (how.fault === "failed") return this.#fail(wire.failure(how.failure));
        this.#outgoing.writeHead(200, { "content-type": "application/json" });
        if (how.fault === "garbage") return void this.#outgoing.end("{this is not JSON");
        this.#outgoing.write("{");
        return this.#cut();
      }
    }
    this.#json(200, wire.whole(ask, answer));
  }

  /** Cuts the connection once the written data is out: an immediate destroy would drop it. */
  async #cut(): Promise<void> {
    await new Promise<void>((resolve) => this.#outgoing.write("", () => resolve()));
    this.#outgoing.destroy();
  }

  #fail({ status, headers, body }: HttpFailure): void {
    this.#json(status, body, headers);
  }

  #json(status: number, body: unknown, headers: Readonly<Record<string, string>> = {}): void {
    this.#outgoing.writeHead(status, { "content-type": "application/json", ...headers });
    this.#outgoing.end(JSON.stringify(body));
  }
}

function faultsOf(part: Part): readonly Break[] {
  if (part.do === "break") return [part.how];
  return part.do === "say" ? part.deltas.filter((delta) => typeof delta !== "string") : [];
}

const LONGEST_TIMER = 2 ** 31 - 1;

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await delay(Math.min(ms, LONGEST_TIMER), undefined, { signal });
}

const MODELS = ["scripted", "claude-sonnet-4-5", "gpt-5.5", "gemini-2.5-pro", "grok-4"];

function toSideAnswer(
  route: Exclude<Route, { kind: "answer" }>,
  bytes: number,
): [status: number, body: unknown] {
  if (route.kind === "health") return [200, { ok: true }];
  if (route.kind === "count") {
    const tokens = toTokens(bytes);
    return [200, route.wire.id === "gemini" ? { totalTokens: tokens } : { input_tokens: tokens }];
  }
  if (route.kind === "none") return [404, { error: { type: "not_found_error", message: "No such path" } }];
  const data = MODELS.map((id) => ({
    id,
    type: "model",
    object: "model",
    display_name: id,
    owned_by: "sluice",
  }));
  return [200, { object: "list", data, has_more: false }];
}

type Route =
  | { readonly kind: "answer"; readonly wire: Wire }
  | { readonly kind: "count"; readonly wire: Wire }
  | { readonly kind: "models" | "health" | "none" };

/** Finds a route by the end of the path: a client's base URL may have any path before it. */
function findRoute(method: string, path: string): Route {
  if (method === "GET" || method === "HEAD") {
    if (path.endsWith("/models")) return { kind: "models" };
    return { kind: path === "/" ? "health" : "none" };
  }
  if (method !== "POST") return { kind: "none" };
  if (path.endsWith("/messages/count_tokens")) return { kind: "count", wire: anthropic };
  if (path.endsWith(":countTokens")) return { kind: "count", wire: gemini };
  if (path.endsWith("/messages")) return { kind: "answer", wire: anthropic };
  if (path.endsWith("/responses")) return { kind: "answer", wire: responses };
  if (path.endsWith("/chat/completions")) return { kind: "answer", wire: chat };
  if (/:(?:stream)?generateContent$/i.test(path)) return { kind: "answer", wire: gemini };
  return { kind: "none" };
}

/** A request that the model received. */
export interface ModelRequest {
  readonly method: string;
  readonly path: string;
  readonly wire?: Wire["id"];
  readonly model?: string;
  /** The parsed body; undefined if it is no JSON. */
  readonly body: unknown;
}
