import { setTimeout as sleep } from "node:timers/promises";
import type { EventDraft, SessionSpec } from "../../contract/index.ts";
import { defined, own } from "../../contract/own-keys.ts";
import { type GatewayRecord, parseRecord, readLines } from "../../gateway/record.ts";
import { loadPricing, type Price, type Pricing } from "../../gateway/pricing.ts";
import type { DeskAnswer } from "../../gateway/desk.ts";
import type { SessionRow } from "../../log/port.ts";
import type { SessionContext } from "../context.ts";
import type { SessionDeps } from "../deps.ts";
import type { Drafts } from "../fold/drafts.ts";
import { INCOMPLETE, REFUSED } from "../fold/request-fold.ts";
import type { SessionFold } from "../fold/session-fold.ts";
import { heldEvents, toDeskBudget } from "../turn/budget.ts";

const LOOK_MS = 200;
/** How long the end of a turn waits for the ends of requests that its agent broke off, and how often it looks. */
const SETTLE_MS = 250;
const SETTLE_LOOK_MS = 10;

/** The item of the call that started a sub-agent, by the CLI's own id of the agent. */
type ParentOf = (agent: string) => string | undefined;

/** The gateway's records of a led agent as events. Each is read once: the events carry the offset, and the fold keeps it. */
export class ModelRecords {
  readonly #context: SessionContext;
  readonly #file: string;
  readonly #parentOf: ParentOf;
  #timer: NodeJS.Timeout | undefined;
  /** The offset behind the last record that was read. Records without an event are read again after a restart. */
  #read = 0;
  #pricing: Pricing | undefined;
  #leave: (() => void) | undefined;

  constructor(context: SessionContext, file: string, parentOf: ParentOf) {
    this.#context = context;
    this.#file = file;
    this.#parentOf = parentOf;
  }

  /** Polls the records: side calls and slow answers come while the agent prints nothing. */
  async start(): Promise<void> {
    this.#pricing = await loadPricing();
    const { deps, writer } = this.#context;
    this.#leave = deps.desk.account(writer.row, async () => {
      const budget = await toDeskBudget(writer, deps);
      return defined({ budget, workspace: await toWorkspaceRate(writer.row, deps) });
    });
    this.#timer = setInterval(() => this.#context.inBackground(this.#look()), LOOK_MS);
    this.#timer.unref();
  }

  stop(): void {
    this.#leave?.();
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** Adds the events of all new records. */
  add(drafts: Drafts): void {
    const { fold, spec, row } = this.#context.writer;
    const { rates } = this.#context.deps;
    const { id: session, tenant } = row;
    for (;;) {
      const from = this.#from;
      const { lines, isAll } = readLines(this.#file, from);
      for (const { text, end } of lines) {
        const record = parseRecord(text);
        if (record !== undefined) rates.note(tenant, session, record);
        for (const event of record === undefined
          ? []
          : toEvents(fold, record, {
              offset: end,
              pricing: this.#pricing,
              spec,
              parentOf: this.#parentOf,
            }))
          drafts.add(event);
        this.#read = end;
      }
      if (isAll || lines.length === 0) return;
    }
  }

  /**
   * Adds the events of all new records, and waits a little for the ends of open requests. An agent that is interrupted
   * or killed breaks its request off; the gateway sees that a moment later. Its usage belongs to the turn.
   */
  async settle(drafts: Drafts): Promise<void> {
    const { fold } = this.#context.writer;
    const isOpen = (): boolean => Object.values(fold.requests ?? {}).some((turn) => turn === fold.turn?.id);
    this.add(drafts);
    for (let waited = 0; isOpen() && waited < SETTLE_MS; waited += SETTLE_LOOK_MS) {
      await sleep(SETTLE_LOOK_MS);
      this.add(drafts);
    }
  }

  get #from(): number {
    return Math.max(this.#read, this.#context.writer.fold.recorded ?? 0);
  }

  async #look(): Promise<void> {
    const { writer, exclusive, commit, isClosed } = this.#context;
    if (isClosed() || readLines(this.#file, this.#from).lines.length === 0) return;
    await exclusive(async () => {
      if (this.#timer === undefined) return;
      const drafts = writer.drafts();
      this.add(drafts);
      await commit(drafts);
    });
  }
}

/** The workspace's limits by the minute; undefined for a workspace without them. */
async function toWorkspaceRate(
  { id, tenant }: Pick<SessionRow, "id" | "tenant">,
  { rates, workspacePerMinute }: Pick<SessionDeps, "rates" | "workspacePerMinute">,
): Promise<DeskAnswer["workspace"]> {
  const perMinute = tenant === undefined ? undefined : workspacePerMinute(tenant);
  return perMinute && tenant !== undefined
    ? { perMinute, others: await rates.others(tenant, id) }
    : undefined;
}

interface EventOptions {
  readonly offset: number;
  readonly pricing: Pricing | undefined;
  readonly spec?: SessionSpec;
  readonly parentOf?: ParentOf;
}

/** The call that a request's agent belongs to. The start of a request may precede the agent's word of it. */
function origin(
  { agent, session }: { readonly agent?: string; readonly session?: string },
  parentOf: ParentOf | undefined,
): { parent_id?: string } {
  const id = agent ?? session;
  return defined({ parent_id: id === undefined ? undefined : parentOf?.(id) });
}

/** The events of a record. A request has one start and one end in the log, whatever the records say. Pure. */
export function toEvents(
  fold: SessionFold,
  record: GatewayRecord,
  { offset, pricing, spec, parentOf }: EventOptions,
): EventDraft[] {
  const open = fold.requests ?? {};
  switch (record.type) {
    case "boot":
      // This gateway replaces an earlier one, whose open requests have no end.
      return Object.keys(open).map((id) => cut(id, offset));
    case "started": {
      const { id: request_id, wire, provider, model, kind, attempt, retryOf } = record;
      const from = origin(record, parentOf);
      const agent_id = record.agent ?? (from.parent_id === undefined ? undefined : record.session);
      const data = { request_id, wire, provider, ...defined({ model, kind, agent_id, attempt }), offset };
      return [
        {
          type: "model.started",
          source: "daemon",
          ...from,
          data: { ...data, ...defined({ retry_of: retryOf }) },
        },
      ];
    }
    case "limited":
      return limitedEvents(fold, record, offset);
    case "first":
      if (!Object.hasOwn(open, record.id)) return [];
      return [
        ...resumed(fold),
        { type: "model.first", source: "daemon", data: { request_id: record.id, ms: record.ms, offset } },
      ];
    case "ended":
      return Object.hasOwn(open, record.id)
        ? [{ ...toEnded(record, offset, pricing), ...origin(record, parentOf) }]
        : [];
    case "held":
      return spec === undefined ? [] : heldEvents(fold, spec, { ...record, offset });
    case "cassette": {
      const message = `the cassette is not whole: ${record.why}`;
      return [{ type: "error", source: "daemon", data: { code: INCOMPLETE, message, details: { offset } } }];
    }
    case "refused": {
      const message = `the model gateway refused a request of the sandbox (${record.why})`;
      return [{ type: "error", source: "daemon", data: { code: REFUSED, message, details: { offset } } }];
    }
  }
}

/** A limit is reached, and the gateway sends the request later by itself. */
function limitedEvents(
  { turn, requests = {} }: SessionFold,
  { id, time, until, scope }: Extract<GatewayRecord, { type: "limited" }>,
  offset: number,
): EventDraft[] {
  if (!turn || turn.interrupt || own(requests, id) !== turn.id) return [];
  const at = toDate(until);
  if (at === undefined) return [];
  const error = {
    code: "rate_limited",
    message: scope === undefined ? `the model provider's limit resets at ${at}` : toOwnLimit(scope, at),
    retryable: true,
  };
  const delay = Math.max(0, until - time);
  const data = { turn_id: turn.id, attempt: turn.attempts + 1, delay_ms: delay, error, until: at, offset };
  return [{ type: "turn.retrying", source: "daemon", data }];
}

/** A provider may name any time, also one that no calendar has. */
function toDate(time: number | undefined): string | undefined {
  const date = new Date(time ?? Number.NaN);
  return Number.isNaN(date.getTime()) ? undefined : date.toISOString();
}

function toOwnLimit(scope: "session" | "workspace", at: string): string {
  return `the ${scope}'s limit of model requests by the minute is reached; it allows the next one at ${at}`;
}

function resumed({ turn }: SessionFold): EventDraft[] {
  if (turn?.retry?.until === undefined) return [];
  return [{ type: "turn.resumed", source: "daemon", data: { turn_id: turn.id, reason: "retry" } }];
}

function toEnded(
  record: Extract<GatewayRecord, { type: "ended" }>,
  offset: number,
  pricing: Pricing | undefined,
): EventDraft {
  const { id, wire, provider, model, usage, status, stop, response, ttft, ms, rate, error } = record;
  const paid = record.served === "cassette" ? () => FREE : pricing;
  const price =
    usage &&
    toPrice([model, record.asked], (name) => paid?.({ provider, model: name, usage, time: record.time }));
  const cost = price?.costUsd;
  const reset = toDate(rate?.reset);
  const limits = rate && defined({ remaining: rate.remaining, reset });
  return {
    type: "model.ended",
    source: "daemon",
    data: {
      request_id: id,
      wire,
      provider,
      ...defined({ model, status, stop_reason: stop, response_id: response, ttft_ms: ttft }),
      ...(usage === undefined
        ? {}
        : {
            usage: cost === undefined ? usage : { ...usage, cost_usd: cost },
            usage_source: record.estimated ? ("estimated" as const) : ("measured" as const),
          }),
      ...(price === undefined
        ? {}
        : { price: { table: price.table, ...defined({ version: price.version }) } }),
      duration_ms: ms,
      bytes_in: record.in,
      bytes_out: record.out,
      served_by: record.served,
      ...(limits === undefined ? {} : { rate: limits }),
      ...(error === undefined
        ? {}
        : { error: { code: error, message: record.detail ?? toMessage(error, status) } }),
      offset,
    },
  };
}

/** The price by the first name that has one: a provider may answer with the name of a deployment. */
function toPrice(
  [answered, asked]: readonly [string | undefined, string | undefined],
  priceOf: (model: string | undefined) => Price | undefined,
): Price | undefined {
  const price = priceOf(answered);
  const other = price?.table === "unknown" && asked !== undefined ? priceOf(asked) : undefined;
  return other?.table === undefined || other.table === "unknown" ? price : other;
}

const FREE: Price = { costUsd: 0, table: "cassette" };

function toMessage(error: string, status: number | undefined): string {
  if (error === "cancelled") return "the agent broke the request off";
  if (error === "cut") return "the answer broke off";
  if (error === "unreachable") return "the model provider could not be reached";
  return status === undefined ? "the request failed" : `the model provider answered with status ${status}`;
}

function cut(id: string, offset: number): EventDraft {
  const error = { code: "cut", message: "the gateway was ended before the answer was complete" };
  return { type: "model.ended", source: "daemon", data: { request_id: id, error, offset } };
}
