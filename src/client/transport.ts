import type { z } from "zod";
import type { EventType } from "../contract/index.ts";
import type * as responses from "../contract/responses.ts";
import { fromResponse, toNotFound, toStreamError, toUnreachable } from "./errors.ts";

export interface ClientOptions {
  /** The server's URL, for example `http://127.0.0.1:7411`; "" is the page's own origin. */
  readonly url: string;
  readonly token?: string | undefined;
  readonly fetch?: typeof fetch;
}

export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
}

export interface KeyOptions extends CallOptions {
  /** A repeated request with the same key gets the first answer and does nothing else. */
  readonly idempotencyKey?: string | undefined;
}

export interface Call extends CallOptions {
  readonly idempotencyKey?: string | undefined;
  readonly method?: string;
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  readonly headers?: Readonly<Record<string, string | undefined>>;
  readonly json?: unknown;
  readonly body?: BodyInit;
}

/** Sends requests to the server. Any status but 2xx is thrown as a `SluiceClientError`. */
export class Transport {
  readonly url: string;
  readonly #token: string | undefined;
  readonly #fetch: typeof fetch;

  constructor(options: ClientOptions) {
    this.url = options.url.replace(/\/+$/, "");
    this.#token = options.token;
    // A browser's fetch has to be called on its window.
    this.#fetch = options.fetch ?? ((input, init) => globalThis.fetch(input, init));
  }

  async call(path: string, call: Call = {}): Promise<Response> {
    const response = await this.fetch(`${path}${toQuery(call.query)}`, toInit(call));
    if (!response.ok) throw await fromResponse(response);
    return response;
  }

  /** The response with any status. */
  async fetch(path: string, init: RequestInit): Promise<Response> {
    const address = `${this.url}${path}`;
    if (NAMELESS.test(path)) throw toNotFound(path);
    const headers = new Headers(init.headers);
    if (this.#token) headers.set("authorization", `Bearer ${this.#token}`);
    return this.#fetch(address, { ...init, headers }).catch((error: unknown) => {
      if (init.signal?.aborted) throw init.signal.reason;
      throw toUnreachable(this.url || address, error);
    });
  }

  async json<T>(path: string, call: Call = {}): Promise<T> {
    const response = await this.call(path, call);
    const text = await response.text().catch((error: unknown) => {
      if (call.signal?.aborted) throw call.signal.reason;
      throw toUnreachable(this.url || path, error);
    });
    try {
      return JSON.parse(text) as T;
    } catch (cause) {
      const detail = `${this.url || path} answered with no JSON but "${text.trim().slice(0, 80)}". Is it a sluice server?`;
      throw toStreamError(detail, { cause, retryable: false });
    }
  }

  /** For routes that answer 204: reads any body, so that the connection can be reused. */
  async done(path: string, call: Call = {}): Promise<Response> {
    const response = await this.call(path, call);
    await response.arrayBuffer();
    return response;
  }
}

/** A path whose id is "", "." or "..", which would lead to another route. */
const NAMELESS = /^\/v1\/(?:sessions|tokens|webhooks)\/\.{0,2}(?:[/?]|$)/;

function toInit(call: Call): RequestInit {
  const headers = new Headers();
  for (const [name, value] of Object.entries(call.headers ?? {}))
    if (value !== undefined) headers.set(name, value);
  if (call.idempotencyKey !== undefined) headers.set("idempotency-key", call.idempotencyKey);
  const init: RequestInit = { method: call.method ?? "GET", headers };
  if (call.signal) init.signal = call.signal;
  if (call.body !== undefined) init.body = call.body;
  // Required for a streamed body; the types of fetch lack it.
  if (typeof call.body === "object" && "getReader" in call.body) Object.assign(init, { duplex: "half" });
  if (call.json !== undefined) {
    headers.set("content-type", "application/json");
    init.body = JSON.stringify(call.json);
  }
  return init;
}

function toQuery(query: Call["query"]): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {}))
    if (value !== undefined) search.set(name, String(value));
  const text = search.toString();
  return text && `?${text}`;
}

/** A reader's options for events. */
export interface EventView {
  /** Adds the events beyond the universal transcript schema. */
  readonly extensions?: boolean;
  /** Adds the agent's own line as `raw`. */
  readonly includeRaw?: boolean;
}

export interface EventPageOptions extends EventView {
  /** The exclusive sequence to start from (default: the oldest event that is kept). */
  readonly after?: number | undefined;
  /** Reads back from this sequence, exclusively; beyond the head means the end. Instead of `after`. */
  readonly before?: number | undefined;
  readonly limit?: number;
  readonly types?: readonly EventType[];
}

export type EventPage = z.infer<typeof responses.EventPage>;

export function pathOf(session: string, rest = ""): string {
  return `/v1/sessions/${encodeURIComponent(session)}${rest && `/${rest}`}`;
}

export function toViewQuery(view: EventView): Record<string, boolean | undefined> {
  return { extensions: view.extensions, include_raw: view.includeRaw };
}

export function toPageQuery(page: EventPageOptions): Record<string, string | number | boolean | undefined> {
  const { after: offset, before, limit, types } = page;
  return { ...toViewQuery(page), offset, before, limit, types: types?.join(",") };
}
