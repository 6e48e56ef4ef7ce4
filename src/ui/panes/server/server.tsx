import "../../styles/server.css";
import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { AgentInfo } from "../../../client/client.ts";
import { client, may, me, transport, wordsOf } from "../../core/api.ts";
import { toBytes, toClock, toCount, toLine, toSpan } from "../../core/format.ts";
import { Fact } from "../timeline/numbers.tsx";
import { gauge, keepSample, parseMetrics, rate, type Sample, toSparkline } from "./samples.ts";

const PERIOD_MS = 5_000;
const [WIDTH, HEIGHT] = [240, 28];

/** Kept while the page is open, so that the last 15 minutes are here when somebody comes back. */
const samples = signal<readonly Sample[]>([]);

type Health =
  | { readonly state: "ok"; readonly ms: number }
  | { readonly state: "failed"; readonly words: string };

/** The server: whether it is well, what it does, and what it lacks. */
export function Server(): JSX.Element {
  const [health, setHealth] = useState<Health | undefined>(undefined);
  const [failure, setFailure] = useState("");
  const canMeasure = may("admin");
  useEffect(() => {
    const asked = new AbortController();
    const look = async (): Promise<void> => {
      if (document.hidden) return;
      const begun = performance.now();
      try {
        await client.health({ signal: asked.signal });
        setHealth({ state: "ok", ms: performance.now() - begun });
        if (!canMeasure) return;
        const text = await (await transport.call("/metrics", { signal: asked.signal })).text();
        samples.value = keepSample(samples.value, { time: Date.now(), values: parseMetrics(text) });
        setFailure("");
      } catch (error) {
        if (asked.signal.aborted) return;
        setFailure(wordsOf(error));
        setHealth({ state: "failed", words: wordsOf(error) });
      }
    };
    void look();
    const timer = setInterval(() => void look(), PERIOD_MS);
    const onShow = (): void => void look();
    document.addEventListener("visibilitychange", onShow);
    return () => {
      asked.abort();
      clearInterval(timer);
      document.removeEventListener("visibilitychange", onShow);
    };
  }, [canMeasure]);
  return (
    <main class="server-pane page-scroll" id="main" tabIndex={0} aria-label="Server">
      <h1>Server</h1>
      <dl class="totals" aria-label="Health">
        <Fact name="health">
          {health === undefined
            ? "asking…"
            : health.state === "ok"
              ? `✓ ok, ${toSpan(health.ms)}`
              : "✕ does not answer"}
        </Fact>
        <Fact name="version">{me.value.version || "unknown"}</Fact>
        <Fact name="up for">{uptimeOf(samples.value.at(-1))}</Fact>
      </dl>
      {health?.state === "failed" && (
        <p class="error" role="alert">
          {health.words} Is it running? Start it with <code>sluice serve</code>; this page goes on by itself.
        </p>
      )}
      {!canMeasure && (
        <p class="empty muted">
          The figures need a login of the scope admin. <code>sluice open</code> on the server’s machine makes
          one.
        </p>
      )}
      {canMeasure && samples.value.length === 0 && failure === "" && (
        <p class="muted">The first figures are on their way.</p>
      )}
      {canMeasure && samples.value.length > 0 && <Figures samples={samples.value} />}
      <Agents />
    </main>
  );
}

function uptimeOf(sample: Sample | undefined): string {
  const seconds = sample?.values.get("sluice_uptime_seconds");
  return seconds === undefined ? "unknown" : toSpan(seconds * 1_000);
}

interface Figure {
  readonly name: string;
  readonly values: readonly (number | null)[];
  format(value: number): string;
  /** Any value above 0 needs somebody. */
  readonly isBad?: boolean;
}

function whole(value: number): string {
  return toCount(Math.round(value));
}

function perSecond(value: number): string {
  return `${value < 10 ? value.toFixed(1) : whole(value)}/s`;
}

function Figures({ samples: list }: { samples: readonly Sample[] }): JSX.Element {
  const figures: readonly Figure[] = [
    { name: "sessions live", values: gauge(list, "sluice_sessions_live"), format: whole },
    { name: "turns running", values: gauge(list, "sluice_turns_running"), format: whole },
    { name: "agent processes", values: gauge(list, "sluice_processes_running"), format: whole },
    { name: "starts waiting", values: gauge(list, "sluice_starts_waiting"), format: whole },
    { name: "events", values: rate(list, "sluice_events_appended_total"), format: perSecond },
    {
      name: "append failures",
      values: gauge(list, "sluice_append_failures_total"),
      format: whole,
      isBad: true,
    },
    { name: "readers", values: gauge(list, "sluice_stream_readers"), format: whole },
    { name: "memory", values: gauge(list, "sluice_resident_memory_bytes"), format: toBytes },
    {
      name: "failed requests",
      values: rate(list, 'sluice_http_requests_total{status="5xx"}'),
      format: perSecond,
      isBad: true,
    },
    { name: "open files", values: gauge(list, "sluice_descriptors_open"), format: whole },
  ];
  const times = list.map(({ time }) => time);
  return (
    <>
      <p class="muted">
        Every 5 seconds while this page is shown, for at most 15 minutes: {toClock(times[0] ?? 0)}–
        {toClock(times.at(-1) ?? 0)}.
      </p>
      <div class="table" tabIndex={0} role="region" aria-label="Figures">
        <table class="numbers figures">
          <thead>
            <tr>
              <th scope="col">figure</th>
              <th scope="col">now</th>
              <th scope="col">least</th>
              <th scope="col">most</th>
              <th scope="col">15 minutes</th>
            </tr>
          </thead>
          <tbody>
            {figures.map((figure) => (
              <FigureRow key={figure.name} figure={figure} times={times} />
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

function FigureRow({ figure, times }: { figure: Figure; times: readonly number[] }): JSX.Element {
  const { values, format } = figure;
  const known = values.filter((value) => value !== null);
  const now = values.at(-1) ?? undefined;
  const show = (value: number | undefined): string => (value === undefined ? "unknown" : format(value));
  const isBad = figure.isBad === true && (now ?? 0) > 0;
  return (
    <tr class={isBad ? "bad" : ""}>
      <th scope="row">{figure.name}</th>
      <td>
        {isBad && <span aria-hidden="true">✕ </span>}
        {show(now)}
      </td>
      <td>{show(known.length > 0 ? Math.min(...known) : undefined)}</td>
      <td>{show(known.length > 0 ? Math.max(...known) : undefined)}</td>
      <td>
        <svg class="sparkline" width={WIDTH} height={HEIGHT} aria-hidden="true">
          <path d={toSparkline(times, values, WIDTH, HEIGHT)} />
        </svg>
      </td>
    </tr>
  );
}

/** The agents of this machine, and the remedy for each that cannot run. */
function Agents(): JSX.Element {
  const [agents, setAgents] = useState<readonly AgentInfo[] | undefined>(undefined);
  const [failure, setFailure] = useState("");
  useEffect(() => {
    const asked = new AbortController();
    client.agents({ signal: asked.signal }).then(setAgents, (error: unknown) => {
      if (!asked.signal.aborted) setFailure(wordsOf(error));
    });
    return () => asked.abort();
  }, []);
  return (
    <>
      <h2>Agents of this machine</h2>
      {failure !== "" && <p class="error">The agents could not be read. {failure}</p>}
      {!agents && failure === "" && <p class="muted">Reading…</p>}
      {agents && (
        <ul class="machine-agents">
          {agents.slice(0, 100).map(({ id, installed, version, hint }) => (
            <li key={id}>
              <span aria-hidden="true">{installed ? "✓" : "✕"}</span> <strong>{toLine(id, 60)}</strong>{" "}
              {installed ? (
                <span class="muted">{toLine(version ?? "installed", 60)}</span>
              ) : (
                <span>is not installed</span>
              )}
              {hint !== undefined && <code>{toLine(hint, 300)}</code>}
            </li>
          ))}
        </ul>
      )}
      <p class="muted">
        <code>sluice doctor</code> on the server’s machine also checks sandboxes, the network and the disk.
      </p>
    </>
  );
}
