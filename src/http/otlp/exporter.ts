import { createHmac } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Catalog, Document } from "../../catalog/port.ts";
import type { SluiceEvent } from "../../contract/index.ts";
import { type EventLog, readKept, type SessionRow } from "../../log/port.ts";
import { Collection } from "../anthropic/collections.ts";
import { SYSTEM_TENANT } from "../auth.ts";
import { type Logger, stderrLogger } from "../context.ts";
import { sha256 } from "../digest.ts";
import { type Cursor, Cursors, startOf } from "../webhooks/cursors.ts";
import type { Reports } from "../webhooks/walk.ts";
import { Collector, type Patience } from "./collector.ts";
import { SPAN_EVENTS, type Span, SpanProjection } from "./projection.ts";
import type { OtlpSettings } from "./settings.ts";

export interface OtlpOptions extends OtlpSettings {
  readonly log: EventLog;
  readonly catalog: Catalog;
  readonly version: string;
  readonly patience?: Partial<Patience>;
  readonly logger?: Logger;
  /** Whether this server exports a session with this owner; absent where it is the only one. */
  readonly reports?: Reports | undefined;
}

export interface OtlpExporter {
  /** Called after each commit. */
  committed(session: string, events: readonly { readonly type: string }[]): void;
  readonly stats: Readonly<Collector["stats"]>;
  /** The next start goes on where this one ends. */
  close(): Promise<void>;
}

const PAGE = 256;
/** The most spans of one request. */
const MOST_SPANS = 512;
/** How often all sessions are looked at: another process may write to the same log. */
const LOOK_MS = 10_000;

/** Sends the spans of all sessions to a collector, at least once, from the log and without a queue. */
export function createOtlpExporter(options: OtlpOptions): OtlpExporter {
  const exporter = new Exporter(options);
  const running = exporter.run();
  return {
    stats: exporter.collector.stats,
    committed: (session, events) => exporter.committed(session, events),
    async close() {
      exporter.stop();
      await running;
    },
  };
}

/** The progress in one session since this start. */
interface Position {
  readonly createdAt: number;
  readonly projection: SpanProjection;
  after: number;
}

class Exporter {
  readonly collector: Collector;
  readonly #options: OtlpOptions;
  readonly #logger: Logger;
  readonly #endpoint: string;
  readonly #cursors: Cursors;
  readonly #abort = new AbortController();
  readonly #moved = new Set<string>();
  readonly #positions = new Map<string, Position>();
  #isBehind = true;
  #wake = (): void => {};

  constructor(options: OtlpOptions) {
    this.#options = options;
    this.#logger = options.logger ?? stderrLogger;
    this.#endpoint = `otlp_${sha256(options.url).slice(0, 16)}`;
    this.#cursors = new Cursors(options.catalog, this.#endpoint);
    this.collector = new Collector({ ...options, logger: this.#logger, signal: this.#abort.signal });
  }

  committed(session: string, events: readonly { readonly type: string }[]): void {
    if (!events.some(({ type }) => (SPAN_EVENTS as ReadonlySet<string>).has(type))) return;
    this.#moved.add(session);
    this.#wake();
  }

  stop(): void {
    this.#abort.abort();
    this.#wake();
  }

  async run(): Promise<void> {
    const { signal } = this.#abort;
    while (!signal.aborted) {
      try {
        await this.#exportAll();
      } catch (error) {
        if (signal.aborted) return;
        this.#logger({
          level: "warn",
          message: "spans could not be exported and are tried again later",
          error: String(error),
        });
        this.#isBehind = true;
        this.#positions.clear();
        // By time only: events may come all the while, and each would cause another failure.
        await sleep(LOOK_MS, undefined, { signal, ref: false }).catch(() => {});
        continue;
      }
      await this.#untilMoved();
    }
  }

  async #exportAll(): Promise<void> {
    const { log } = this.#options;
    const since = await this.#since();
    while (!this.#abort.signal.aborted && (this.#isBehind || this.#moved.size > 0)) {
      for (const session of this.#moved) {
        this.#moved.delete(session);
        await this.#export(session, since);
      }
      if (!this.#isBehind) continue;
      this.#isBehind = false;
      for await (const session of this.#cursors.behind(log, { since })) await this.#export(session, since);
    }
  }

  /** When this collector was first named; older events of sessions are not exported. */
  async #since(): Promise<number> {
    const endpoints = new Collection<{ since: number }>(this.#options.catalog, "otlp_endpoint");
    const known = await endpoints.find(SYSTEM_TENANT, this.#endpoint);
    if (known) return known.body.since;
    const made = { id: this.#endpoint, body: { since: Date.now(), settled: true } };
    return (await endpoints.create(SYSTEM_TENANT, made)).body.since;
  }

  async #export(session: string, since: number): Promise<void> {
    const { log } = this.#options;
    const row = await log.find(session);
    if (this.#options.reports?.(row?.owner) === false) return void this.#positions.delete(session);
    let cursor = await this.#cursors.find(session);
    // Deleted, or deleted and made again.
    if (cursor && cursor.body.created_at !== row?.createdAt) {
      await this.#cursors.remove(cursor);
      this.#positions.delete(session);
      cursor = undefined;
    }
    if (!row) return void this.#positions.delete(session);
    const position = this.#positions.get(session) ?? {
      createdAt: row.createdAt,
      projection: new SpanProjection({ session, createdAt: row.createdAt, agent: row.spec.agent, digest }),
      after: cursor?.body.after ?? (await startOf(log, row, since)),
    };
    // Until the spans are accepted, the position is not to be trusted.
    this.#positions.delete(session);
    await this.#catchUp(row, position, cursor);
    if (!position.projection.isSettled) this.#positions.set(session, position);
  }

  async #catchUp(row: SessionRow, position: Position, found: Document<Cursor> | undefined): Promise<void> {
    let cursor = found;
    const { projection } = position;
    let spans: Span[] = [];
    for (;;) {
      const page = await this.#read(row.id, position.after);
      for (const event of page ?? []) {
        spans.push(...projection.take(event));
        position.after = event.sequence;
      }
      const isLast = page === undefined || page.length === 0;
      if (!isLast && spans.length < MOST_SPANS) continue;
      if (spans.length > 0) await this.collector.send(spans);
      spans = [];
      const isAhead = position.after > (cursor?.body.after ?? 0);
      if (projection.isSettled && isAhead && page !== undefined)
        cursor = cursor
          ? await this.#cursors.move(cursor, { after: position.after })
          : await this.#cursors.begin(row, await this.#cursors.workspaceOf(row), position.after);
      if (isLast) return;
    }
  }

  /** Undefined where the session was removed during the read. */
  async #read(session: string, after: number): Promise<SluiceEvent[] | undefined> {
    try {
      const stored = await readKept(this.#options.log, session, { after, limit: PAGE, types: SPAN_EVENTS });
      return stored.map(({ body }) => JSON.parse(body) as SluiceEvent);
    } catch (error) {
      if (await this.#options.log.find(session)) throw error;
      return undefined;
    }
  }

  #untilMoved(): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        this.#wake = () => {};
        resolve();
      };
      const timer = setTimeout(() => {
        this.#isBehind = true;
        done();
      }, LOOK_MS);
      timer.unref();
      this.#wake = done;
      if (this.#abort.signal.aborted || this.#moved.size > 0) done();
    });
  }
}

/** Stable over restarts and servers. */
function digest(...parts: readonly (string | number)[]): string {
  return createHmac("sha256", "sluice otlp 1").update(JSON.stringify(parts)).digest("hex");
}
