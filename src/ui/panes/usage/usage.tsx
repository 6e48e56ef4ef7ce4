import "../../styles/usage.css";
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { client } from "../../core/api.ts";
import { toCost, toCount, toLine, toShort, toSpan } from "../../core/format.ts";
import { isFile, type SessionView } from "../../core/session-view.ts";
import type { TurnSummary } from "../../log/protocol.ts";
import { useSpans } from "../span-store.ts";
import { Fact } from "../timeline/numbers.tsx";
import { Chart, type Series } from "./chart.tsx";
import {
  toHitRate,
  toPrice,
  toTokenCount,
  toUsageTable,
  toWait,
  type UsageRow,
  type UsageTable,
} from "./table.ts";

/** Rows of the table that exist at a time. */
const SHOWN = 60;

interface Budget {
  readonly usd?: number;
  readonly tokens?: number;
  readonly requests?: number;
  readonly minutes?: number;
}

/** Tokens, prices and waiting times by turn and model, up to the shown moment. */
export function UsagePane({ view }: { view: SessionView }): JSX.Element {
  const { spans, failure } = useSpans(view);
  const screen = view.screen.value;
  const at = screen?.at ?? 0;
  const turns = useMemo(
    () => view.turns.value.filter(({ last }) => last > 0 && last <= at),
    [view.turns.value, at],
  );
  const table = useMemo(() => toUsageTable(spans, turns), [spans, turns]);
  const budget = useBudget(view.id);
  if (failure !== undefined)
    return <p class="empty error">The usage could not be read: {failure} Open the tab again to retry.</p>;
  if (table.rows.length === 0)
    return (
      <p class="empty muted">
        {screen?.complete ? "No request to a model was reported up to this moment." : "Reading the log…"}
      </p>
    );
  return (
    <section class="usage-pane page-scroll" tabIndex={0} aria-label="Usage">
      <Totals table={table} />
      {budget && <BudgetLine budget={budget} table={table} turns={turns} />}
      <TurnChart table={table} />
      <h2>By model</h2>
      <Table rows={table.models} />
      <h2>By turn and model</h2>
      <Table rows={table.rows} turns={turns} onSelect={(sequence) => (view.selected.value = sequence)} />
      <p class="muted">
        “unknown” means that the agent reported nothing. “plan” means tokens without a price, as agents on a
        plan report them. “~” marks estimates.
      </p>
    </section>
  );
}

function Totals({ table }: { table: UsageTable }): JSX.Element {
  const { total } = table;
  const requests = table.models.reduce((sum, row) => sum + row.requests, 0);
  return (
    <dl class="totals" aria-label="Sum">
      <Fact name="requests">{toCount(requests)}</Fact>
      <Fact name="input">{toTokenCount(total.input_tokens)}</Fact>
      <Fact name="output">{toTokenCount(total.output_tokens)}</Fact>
      <Fact name="cache read">{toTokenCount(total.cache_read_tokens)}</Fact>
      <Fact name="cache write">{toTokenCount(total.cache_write_tokens)}</Fact>
      <Fact name="reasoning">{toTokenCount(total.reasoning_tokens)}</Fact>
      <Fact name="cache hits">{toHitRate(total)}</Fact>
      <Fact name="cost">{table.isPartlyPriced ? `${toPrice(total)} + plan` : toPrice(total)}</Fact>
    </dl>
  );
}

function Table(props: {
  readonly rows: readonly UsageRow[];
  readonly turns?: readonly TurnSummary[];
  onSelect?(sequence: number): void;
}): JSX.Element {
  const { rows, turns, onSelect } = props;
  const [end, setEnd] = useState<number | undefined>(undefined);
  const to = Math.min(rows.length, end ?? rows.length);
  const from = Math.max(0, to - SHOWN);
  return (
    <div
      class="table"
      tabIndex={0}
      role="region"
      aria-label={turns ? "Usage by turn and model" : "Usage by model"}
    >
      <table class="numbers">
        <thead>
          <tr>
            {turns && <th scope="col">turn</th>}
            <th scope="col">model</th>
            <th scope="col">requests</th>
            <th scope="col">input</th>
            <th scope="col">cache read</th>
            <th scope="col">cache write</th>
            <th scope="col">output</th>
            <th scope="col">reasoning</th>
            <th scope="col">cache hits</th>
            <th scope="col">first token</th>
            <th scope="col">cost</th>
          </tr>
        </thead>
        <tbody>
          {rows.slice(from, to).map((row) => (
            <Row
              key={`${row.turn}:${row.model}`}
              row={row}
              isTurn={turns !== undefined}
              onSelect={onSelect}
            />
          ))}
        </tbody>
      </table>
      {rows.length > SHOWN && (
        <p class="toolbar">
          <button disabled={from === 0} onClick={() => setEnd(Math.max(SHOWN, to - SHOWN))}>
            Earlier
          </button>
          <button
            disabled={to === rows.length}
            onClick={() => setEnd(to + SHOWN >= rows.length ? undefined : to + SHOWN)}
          >
            Later
          </button>
          <span class="muted">
            {toCount(from + 1)}–{toCount(to)} of {toCount(rows.length)}
          </span>
        </p>
      )}
    </div>
  );
}

function Row(props: {
  readonly row: UsageRow;
  readonly isTurn: boolean;
  readonly onSelect: ((sequence: number) => void) | undefined;
}): JSX.Element {
  const { row, isTurn, onSelect } = props;
  const { usage } = row;
  const sign = row.estimated ? "~" : "";
  const count = (value: number | undefined): string =>
    value === undefined ? "unknown" : `${sign}${toCount(value)}`;
  const wait = toWait(row);
  const model = row.model === "" ? "not named" : toLine(row.model, 60);
  return (
    <tr>
      {isTurn && (
        <th scope="row">
          <button class="plain" onClick={() => onSelect?.(row.sequence)}>
            {row.turn === 0 ? "none" : row.turn}
          </button>
        </th>
      )}
      {isTurn ? <td>{model}</td> : <th scope="row">{model}</th>}
      <td>{row.requests === 0 ? "unknown" : toCount(row.requests)}</td>
      <td>{count(usage.input_tokens)}</td>
      <td>{count(usage.cache_read_tokens)}</td>
      <td>{count(usage.cache_write_tokens)}</td>
      <td>{count(usage.output_tokens)}</td>
      <td>{count(usage.reasoning_tokens)}</td>
      <td>{toHitRate(usage)}</td>
      <td>{wait === undefined ? "unknown" : toSpan(wait)}</td>
      <td>{toPrice(usage)}</td>
    </tr>
  );
}

/** Tokens of each turn, by kind. */
function TurnChart({ table }: { table: UsageTable }): JSX.Element | null {
  const { x, series } = useMemo(() => toSeries(table), [table]);
  if (x.length < 2) return null;
  return (
    <Chart
      label={`Tokens of ${x.length} turns by kind. The table below has the same numbers.`}
      x={x}
      series={series}
      format={toShort}
      formatX={(turn) => `turn ${turn}`}
    />
  );
}

function toSeries({ rows }: UsageTable): { x: number[]; series: Series[] } {
  const byTurn = new Map<number, { input: number; cached: number; output: number }>();
  for (const { turn, usage } of rows) {
    if (turn === 0) continue;
    const sum = byTurn.get(turn) ?? { input: 0, cached: 0, output: 0 };
    sum.input += usage.input_tokens ?? 0;
    sum.cached += usage.cache_read_tokens ?? 0;
    sum.output += usage.output_tokens ?? 0;
    byTurn.set(turn, sum);
  }
  const x = [...byTurn.keys()];
  const sums = [...byTurn.values()];
  const series: Series[] = [
    { name: "input", colour: "one", values: sums.map(({ input }) => input) },
    { name: "cache read", colour: "two", values: sums.map(({ cached }) => cached) },
    { name: "output", colour: "three", values: sums.map(({ output }) => output) },
  ];
  return { x, series };
}

/** How much of the budget is used, where the session has one. */
function BudgetLine(props: {
  budget: Budget;
  table: UsageTable;
  turns: readonly TurnSummary[];
}): JSX.Element {
  const { budget, table, turns } = props;
  const { total } = table;
  const used = {
    usd: total.cost_usd,
    tokens: (total.input_tokens ?? 0) + (total.output_tokens ?? 0),
    requests: table.models.reduce((sum, row) => sum + row.requests, 0),
    minutes: turns.reduce((sum, { startedAt, endedAt }) => sum + endedAt - startedAt, 0) / 60_000,
  };
  return (
    <ul class="budget" aria-label="Budget">
      {(["usd", "tokens", "requests", "minutes"] as const).map((kind) => {
        const [limit, amount] = [budget[kind], used[kind]];
        if (limit === undefined) return null;
        const words = `${amount === undefined ? "unknown" : showLimit(kind, amount)} of ${showLimit(kind, limit)}`;
        return (
          <li key={kind}>
            <span>
              budget {kind}: {words}
            </span>
            {amount !== undefined && (
              <meter min={0} max={limit} high={limit * 0.8} value={amount} aria-label={words} />
            )}
          </li>
        );
      })}
    </ul>
  );
}

function showLimit(kind: keyof Budget, value: number): string {
  if (kind === "usd") return toCost({ cost_usd: value });
  return kind === "minutes" ? `${value.toFixed(1)} min` : toCount(Math.round(value));
}

function useBudget(session: string): Budget | undefined {
  const [budget, setBudget] = useState<Budget | undefined>(undefined);
  useEffect(() => {
    if (isFile()) return;
    const asked = new AbortController();
    void client.sessions.spec(session, { signal: asked.signal }).then(
      (spec) => setBudget(toBudget((spec as { budget?: unknown }).budget)),
      () => {},
    );
    return () => asked.abort();
  }, [session]);
  return budget;
}

function toBudget(given: unknown): Budget | undefined {
  if (typeof given !== "object" || given === null) return undefined;
  const limits = Object.entries(given).filter(
    ([kind, limit]) => ["usd", "tokens", "requests", "minutes"].includes(kind) && typeof limit === "number",
  );
  return limits.length > 0 ? (Object.fromEntries(limits) as Budget) : undefined;
}
