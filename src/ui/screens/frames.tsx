import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { copy, say } from "../core/announce.ts";
import { transport } from "../core/api.ts";
import { toCount, toLine } from "../core/format.ts";
import { pathOf } from "../core/api.ts";
import { isFile, type SessionView } from "../core/session-view.ts";
import type { FrameRow } from "../log/protocol.ts";
import { Code } from "../parts/code.tsx";
import { Lines } from "../parts/lines.tsx";

const COLUMNS = [
  "log",
  "native",
  "universal",
  "anthropic",
  "ag-ui",
  "ndjson",
  "content",
  "lifecycle",
] as const;
const ROW = 28;
const BLOCK = 100;
const MAX_COLUMNS = 4;

const columns = signal<readonly string[]>(["log", "native", "anthropic", "ag-ui"]);

/** One session in several languages at once, event by event. */
export function Frames({ view }: { view: SessionView }): JSX.Element {
  const screen = view.screen.value;
  const base = screen?.base ?? 0;
  const count = (screen?.at ?? 0) - base;
  const [rows, setRows] = useState<ReadonlyMap<number, FrameRow>>(new Map());
  const [wanted, setWanted] = useState({ from: 0, count: 60 });
  const [open, setOpen] = useState<number | null>(view.selected.value);
  const names = columns.value;
  const end = Math.min(wanted.from + wanted.count, count);
  useEffect(() => setRows(new Map()), [names, view]);
  useEffect(() => {
    let stopped = false;
    const first = Math.floor(wanted.from / BLOCK) * BLOCK;
    if (end <= first) return;
    const missing = Array.from({ length: end - first }, (_, index) => base + first + index + 1).some(
      (sequence) => !rows.has(sequence),
    );
    if (!missing) return;
    const dialects = names.filter((name) => name !== "log" && name !== "native");
    const range = { from: base + first + 1, count: end - first, dialects, raw: names.includes("native") };
    view.call("frames", range).then(
      (found) => {
        if (stopped) return;
        setRows(
          (known) =>
            new Map([...[...known].slice(-1_000), ...found.map((row) => [row.sequence, row] as const)]),
        );
      },
      (error: unknown) => say(String(error), "bad"),
    );
    return () => {
      stopped = true;
    };
  }, [wanted.from, end, names, rows, base]);
  const opened = open === null ? undefined : rows.get(open);
  return (
    <div class="frames">
      <div class="toolbar" role="group" aria-label="Columns">
        {COLUMNS.map((name) => (
          <label key={name}>
            <input
              type="checkbox"
              checked={names.includes(name)}
              disabled={!names.includes(name) && names.length >= MAX_COLUMNS}
              onChange={() => toggle(name)}
            />
            {name}
          </label>
        ))}
        <span class="muted">the same bytes as the server sends</span>
        {!isFile() && <button onClick={() => void compare(view, names)}>Compare the last 1,000</button>}
        {!isFile() && <button onClick={() => void copy(toCurl(view.id), "The command")}>Copy as curl</button>}
      </div>
      <div class="frames-table">
        <div class={`frames-head columns-${names.length}`} aria-hidden="true">
          <span>seq</span>
          {names.map((name) => (
            <span key={name}>{name}</span>
          ))}
        </div>
        <Lines
          count={count}
          height={ROW}
          label="Frames"
          follow={open === null}
          focus={open === null ? undefined : open - base - 1}
          onWindow={(from, size) => setWanted({ from, count: size })}
          render={(index) => {
            const sequence = base + index + 1;
            const row = rows.get(sequence);
            return (
              <div
                key={sequence}
                role="listitem"
                class={`frame-row columns-${names.length}${sequence === open ? " selected" : ""}`}
              >
                <button
                  class="frame-open"
                  data-sequence={sequence}
                  onClick={() => setOpen(sequence === open ? null : sequence)}
                >
                  {toCount(sequence)}
                </button>
                {names.map((name) => (
                  <span key={name} class="frame-cell" data-dialect={name}>
                    {row ? toCell(row, name) : "…"}
                  </span>
                ))}
              </div>
            );
          }}
        />
      </div>
      {screen && count === 0 && <p class="empty muted">No event has happened up to this moment.</p>}
      {opened && <Opened view={view} row={opened} names={names} />}
    </div>
  );
}

function Opened(props: { view: SessionView; row: FrameRow; names: readonly string[] }): JSX.Element {
  const { view, row, names } = props;
  return (
    <section class="frame-detail" aria-label={`Event ${row.sequence}`}>
      {names.map((name) => (
        <div key={name}>
          <h2>{name}</h2>
          <Code text={textsOf(row, name).map(pretty).join("\n") || "–"} language="json" />
        </div>
      ))}
      <button onClick={() => void copySse(view, row.sequence)}>Copy as SSE</button>
    </section>
  );
}

function toggle(name: string): void {
  const { value } = columns;
  columns.value = value.includes(name)
    ? value.filter((one) => one !== name)
    : COLUMNS.filter((one) => one === name || value.includes(one));
}

function textsOf(row: FrameRow, name: string): readonly string[] {
  if (name === "log") return [row.body];
  if (name === "native") return row.raw === undefined ? [] : [row.raw];
  return row.frames[name] ?? [];
}

/** The type of a frame and the beginning of its content. */
function toCell(row: FrameRow, name: string): string {
  if (name === "log") return `${row.type} ${toLine(dataOf(row.body), 120)}`;
  const texts = textsOf(row, name);
  if (texts.length === 0) return "–";
  return texts.map((text) => `${typeOf(text)} ${toLine(text, 80)}`).join(" │ ");
}

function dataOf(body: string): string {
  const at = body.indexOf('"data":');
  return at < 0 ? body : body.slice(at + 7, at + 600);
}

function typeOf(text: string): string {
  try {
    const { type } = JSON.parse(text) as { type?: unknown };
    return typeof type === "string" ? type : "";
  } catch {
    return "";
  }
}

function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2).slice(0, 20_000);
  } catch {
    return text.slice(0, 20_000);
  }
}

async function copySse(view: SessionView, sequence: number): Promise<void> {
  const [event] = await view.call("events", { from: sequence, count: 1, whole: true });
  if (event) await copy(`id: ${sequence}\ndata: ${event.body}\n\n`, "The event");
}

function toCurl(session: string): string {
  const path = `${location.origin}${pathOf(session, "events/sse")}?extensions=true`;
  return `curl -N -H "Authorization: Bearer $SLUICE_TOKEN" '${path}'`;
}

/** Asks the server for its own frames and compares them with those of the page. */
async function compare(view: SessionView, names: readonly string[]): Promise<void> {
  const head = view.screen.value?.head ?? 0;
  const from = Math.max((view.screen.value?.base ?? 0) + 1, head - 999);
  const dialects = names.filter((name) => name !== "log" && name !== "native");
  try {
    const own = await view.call("frames", {
      from,
      count: head - from + 1,
      dialects,
      raw: false,
      whole: true,
    });
    let frames = 0;
    for (const dialect of dialects) {
      const query = { as: dialect, offset: from - 1, limit: 1_000 };
      const answer = await transport.json<{ events: { sequence: number; frames: unknown[] }[] }>(
        pathOf(view.id, "events"),
        { query },
      );
      const theirs = new Map(answer.events.map((event) => [event.sequence, event.frames]));
      for (const row of own) {
        const mine = (row.frames[dialect] ?? []).join("\n");
        const other = (theirs.get(row.sequence) ?? []).map((frame) => JSON.stringify(frame)).join("\n");
        if (mine !== other) return say(`${dialect} differs at event ${row.sequence}.`, "bad");
        frames += row.frames[dialect]?.length ?? 0;
      }
    }
    say(`${toCount(frames)} frames compared: all the same bytes`);
  } catch (error) {
    say(String(error), "bad");
  }
}
