import { SluiceClientError } from "../../client/errors.ts";
import { Backoff, IDLE_TIMEOUT_MS, readBatches } from "../../client/subscribe.ts";
import { pathOf, Transport } from "../../client/transport.ts";
import type { Outline, SessionInfo } from "../../contract/index.ts";
import { PAGE, sequenceOf } from "./texts.ts";

/** The second half of the page's login; the cookie is the first. */
export const PROOF_HEADER = "sluice-page";

export function createTransport(proof: string | null): Transport {
  return new Transport({
    url: "",
    fetch: (input, init) => {
      const headers = new Headers(init?.headers);
      if (proof !== null) headers.set(PROOF_HEADER, proof);
      return globalThis.fetch(input, { ...init, headers, credentials: "same-origin" });
    },
  });
}

/** How long a hidden page keeps its stream: a glance at another tab costs no new connection. */
export const REST_AFTER_MS = 5_000;

/** Whether somebody can see the page. Browsers have few connections for one server, so hidden pages hold none. */
export class Sight {
  isSeen = true;
  /** Called when the page was hidden for a while. */
  onLost: () => void = () => {};
  #timer: ReturnType<typeof setTimeout> | undefined;
  #wake: () => void = () => {};

  set(isVisible: boolean): void {
    clearTimeout(this.#timer);
    if (!isVisible) {
      this.#timer = setTimeout(() => {
        this.isSeen = false;
        this.onLost();
      }, REST_AFTER_MS);
      return;
    }
    this.isSeen = true;
    this.#wake();
  }

  /** Resolves when the page can be seen. */
  async wait(signal: AbortSignal): Promise<void> {
    if (this.isSeen || signal.aborted) return;
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
      signal.addEventListener("abort", () => resolve(), { once: true });
    });
  }
}

/** A session's log on the server, as texts. */
export class ServerLog {
  readonly #transport: Transport;
  readonly #session: string;

  constructor(transport: Transport, session: string) {
    this.#transport = transport;
    this.#session = session;
  }

  info(signal?: AbortSignal): Promise<SessionInfo> {
    return this.#transport.json(pathOf(this.#session), { signal });
  }

  /** A page of events after a sequence, with their native lines if `raw` is set. */
  async page(after: number, limit: number, raw = false): Promise<string[]> {
    const query = { extensions: true, offset: after, limit, ...(raw && { include_raw: true }) };
    const response = await this.#transport.call(pathOf(this.#session, "events"), { query });
    const { events } = (await response.json()) as { events: unknown[] };
    return events.map((event) => JSON.stringify(event));
  }

  /** All events after one sequence up to another. The server answers with fewer at once if they are many or big. */
  async range(after: number, to: number): Promise<string[]> {
    const found: string[] = [];
    for (let at = after; at < to;) {
      const texts = await this.page(at, Math.min(PAGE, to - at));
      if (texts.length === 0) return found;
      found.push(...texts);
      at = sequenceOf(texts.at(-1) as string);
    }
    return found;
  }

  /** The newest turns, without their events. */
  outline(): Promise<Outline> {
    return this.#transport.json(pathOf(this.#session, "outline"), { query: { limit: 300 } });
  }

  /**
   * Follows the log from a sequence on, across cuts and restarts of the server, until the signal aborts, the session
   * is deleted, or it has ended and all its events are read. `take` gets the texts of each chunk and returns the sequence to go on from.
   */
  async follow(options: {
    readonly after: number;
    readonly signal: AbortSignal;
    readonly sight: Sight;
    take(texts: readonly string[]): number;
    onLink(state: "open" | "cut" | "resting", reason: string): void;
  }): Promise<void> {
    const { signal } = options;
    const backoff = new Backoff();
    let { after } = options;
    while (!signal.aborted) {
      await options.sight.wait(signal);
      const connection = new AbortController();
      const hangUp = (): void => connection.abort();
      signal.addEventListener("abort", hangUp);
      options.sight.onLost = hangUp;
      let silent: ReturnType<typeof setTimeout> | undefined;
      const alive = (): void => {
        clearTimeout(silent);
        silent = setTimeout(hangUp, IDLE_TIMEOUT_MS);
      };
      try {
        alive();
        const response = await this.#transport.call(pathOf(this.#session, "events/sse"), {
          query: { extensions: true },
          headers: { accept: "text/event-stream", "last-event-id": String(after) },
          signal: connection.signal,
        });
        options.onLink("open", "");
        for await (const batch of readBatches(response.body as ReadableStream<Uint8Array>)) {
          alive();
          const texts = batch.flatMap((message) => (typeof message === "string" ? [] : [message.data]));
          if (texts.length === 0) continue;
          backoff.reset();
          after = options.take(texts);
        }
        if (await this.#isOver(after, signal)) return;
        options.onLink("cut", "The stream ended.");
      } catch (error) {
        if (signal.aborted) return;
        if (!options.sight.isSeen) {
          options.onLink("resting", "");
          backoff.reset();
          continue;
        }
        if (error instanceof SluiceClientError && !error.retryable) throw error;
        options.onLink("cut", error instanceof Error ? error.message : String(error));
      } finally {
        clearTimeout(silent);
        signal.removeEventListener("abort", hangUp);
        connection.abort();
      }
      await backoff.wait(signal);
    }
  }

  /** Whether no event can follow: the session is gone, or it has ended and all its events are read. */
  async #isOver(after: number, signal: AbortSignal): Promise<boolean> {
    const info = await this.info(signal).catch((error: unknown) => {
      if (error instanceof SluiceClientError && error.code === "session_not_found") return undefined;
      throw error;
    });
    return info === undefined || (info.ended && info.eventCount <= after);
  }
}
