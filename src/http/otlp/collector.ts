import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "../context.ts";
import { encodeSpans } from "./encode.ts";
import type { Span } from "./projection.ts";
import type { OtlpSettings } from "./settings.ts";

export interface Patience {
  /** The delay after the first failure; each further one doubles it. */
  readonly firstMs: number;
  readonly mostMs: number;
  /** How long a response may take. */
  readonly timeoutMs: number;
}

const PATIENCE: Patience = { firstMs: 1_000, mostMs: 60_000, timeoutMs: 10_000 };

/** The collector takes such a batch at no time. */
const HOPELESS = new Set([400, 413]);

export interface CollectorOptions extends OtlpSettings {
  readonly version: string;
  readonly patience?: Partial<Patience>;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/** Sends spans until they are accepted. */
export class Collector {
  readonly stats = { exported: 0, dropped: 0, failures: 0 };
  readonly #options: CollectorOptions;
  readonly #patience: Patience;

  constructor(options: CollectorOptions) {
    this.#options = options;
    this.#patience = { ...PATIENCE, ...options.patience };
  }

  /** Resolves when the collector has taken the spans, or never will. Rejects when the exporter is closed. */
  async send(spans: readonly Span[]): Promise<void> {
    const { logger, signal } = this.#options;
    const body = encodeSpans(spans, this.#options);
    for (let failures = 0; ; failures += 1) {
      signal.throwIfAborted();
      const { problem, waitMs = 0, isHopeless = false } = await this.#post(body);
      if (problem === undefined) return void (this.stats.exported += spans.length);
      this.stats.failures += 1;
      if (isHopeless) {
        this.stats.dropped += spans.length;
        return logger({
          level: "warn",
          message: "a collector refused spans, which are left out",
          problem,
          spans: spans.length,
        });
      }
      if (failures === 0)
        logger({ level: "warn", message: "a collector did not take spans; they are sent again", problem });
      const { firstMs, mostMs } = this.#patience;
      const delay = Math.max(Math.min(mostMs, firstMs * 2 ** Math.min(failures, 20)), waitMs);
      await sleep(delay, undefined, { signal, ref: false });
    }
  }

  /** One attempt. The problem holds nothing that the collector wrote: it may quote a credential. */
  async #post(body: string): Promise<{ problem?: string; waitMs?: number; isHopeless?: boolean }> {
    const { url, headers, signal } = this.#options;
    try {
      const response = await fetch(url, {
        method: "POST",
        headers: { ...headers, "content-type": "application/json" },
        body,
        redirect: "error",
        signal: AbortSignal.any([signal, AbortSignal.timeout(this.#patience.timeoutMs)]),
      });
      await response.body?.cancel().catch(() => {});
      if (response.ok) return {};
      const seconds = Number(response.headers.get("retry-after") ?? Number.NaN);
      const waitMs = seconds > 0 && seconds <= 3_600 ? seconds * 1_000 : 0;
      return { problem: `HTTP ${response.status}`, waitMs, isHopeless: HOPELESS.has(response.status) };
    } catch (error) {
      const { cause, name } = error as Error & { cause?: { code?: string } };
      return { problem: cause?.code ?? name };
    }
  }
}
