import type { ReadEvents } from "./frames.ts";
import type { LogIndex } from "./log-index.ts";
import { toMarkdown } from "./markdown-copy.ts";
import type { Calls, EventText, SearchHit, View } from "./protocol.ts";
import { viewRow } from "./row-view.ts";
import type { ServerLog } from "./server-log.ts";
import { readSpans } from "./spans.ts";
import { PAGE } from "./texts.ts";
import type { VisibleRows } from "./visible-rows.ts";

export interface CallContext {
  readonly view: View;
  readonly server: ServerLog | undefined;
  readonly agent: string | undefined;
}

/** Events of one answer: the page never holds the whole log. */
const MAX_PICKED = 2_000;
/** Of a native line, for the screen. */
const MAX_LINE = 100_000;
let searches = 0;

type Answers = {
  [Name in keyof Calls]: (given: Parameters<Calls[Name]>[0]) => Promise<ReturnType<Calls[Name]>>;
};

/** The answers to the page's calls. Texts that were dropped are read again first. */
export function createCalls(index: LogIndex, visible: VisibleRows, context: CallContext): Answers {
  const { columns, texts } = index;
  const read = async (from: number, count: number, isWhole = true): Promise<EventText[]> => {
    const first = Math.max(index.base + 1, from);
    const last = Math.min(index.head, from + count - 1);
    if (last < first) return [];
    await texts.load(first, last);
    const found: EventText[] = [];
    for (let sequence = first; sequence <= last; sequence++) {
      const body = isWhole ? await texts.whole(sequence) : texts.get(sequence);
      if (body !== undefined)
        found.push({ sequence, type: columns.typeOf(sequence), time: columns.timeOf(sequence), body });
    }
    return found;
  };
  return {
    events: ({ from, count, whole = false }) => read(from, count, whole),
    async frames({ from, count, dialects, raw, whole = false }) {
      const { projectFrames } = await import("./frames.ts");
      const lines =
        raw && context.server ? await readRaw(context.server, from - 1, count) : new Map<number, string>();
      const readAs: ReadEvents = (first, size) => read(first, size, whole);
      return projectFrames(index, { from, count, dialects, lines, agent: context.agent, read: readAs });
    },
    async search({ text, limit }) {
      const wanted = text.toLowerCase();
      const hits: SearchHit[] = [];
      let total = 0;
      const turn = ++searches;
      for (let from = index.base + 1; from <= index.head; from += PAGE) {
        // A search for other words has begun: nobody waits for this one.
        if (turn !== searches) return { hits, total };
        for (const event of await read(from, PAGE)) {
          const hit = find(event, wanted);
          if (!hit) continue;
          total += 1;
          if (hits.length < limit) hits.push(hit);
        }
      }
      return { hits, total };
    },
    rowOf: async (sequence) => visible.positionOf(sequence, context.view),
    async row(sequence) {
      const row = index.rows.all[columns.rowOf(sequence)];
      if (!row) return undefined;
      const at = context.view.at ?? index.head;
      await texts.load(row.sequence, Math.min(row.last, at));
      return viewRow(index, row, at, Number.MAX_SAFE_INTEGER);
    },
    async pick({ types, from, to, last = false }) {
      const wanted = new Set(types);
      const found: number[] = [];
      for (let sequence = Math.max(from, index.base + 1); sequence <= Math.min(to, index.head); sequence++)
        if (wanted.has(columns.typeOf(sequence))) found.push(sequence);
      const picked: EventText[] = [];
      for (const sequence of last ? found.slice(-1) : found.slice(-MAX_PICKED))
        picked.push(...(await read(sequence, 1)));
      return picked;
    },
    async markdown({ from, to, only = false }) {
      const last = Math.min(to, index.head);
      const rows = visible.slice(
        last,
        { ...context.view, all: false, hidden: [] },
        0,
        Number.MAX_SAFE_INTEGER,
      );
      const inside = rows.filter((row) => row.sequence >= from && row.sequence <= last);
      const chosen = only ? inside.slice(0, 1) : inside;
      const views = [];
      for (const row of chosen) {
        await texts.load(row.sequence, row.last);
        views.push(viewRow(index, row, last, Number.MAX_SAFE_INTEGER));
      }
      return toMarkdown(views);
    },
    spans: (since) => readSpans(index, since),
    async rowsAt({ at, sequences }) {
      const views = [];
      for (const sequence of sequences) {
        const row = index.rows.all[columns.rowOf(sequence)];
        if (!row || row.sequence > at) continue;
        try {
          await texts.load(row.sequence, Math.min(row.last, at));
          views.push(viewRow(index, row, at));
        } catch {
          // An output of more events than memory keeps: only its beginning can be shown.
          await texts.load(row.sequence, row.sequence);
          views.push(viewRow(index, row, row.sequence));
        }
      }
      return views;
    },
    async moment(at) {
      const start = index.turnAt(at)?.first ?? index.base + 1;
      await texts.load(start, Math.min(at, index.head));
      return index.momentAt(at);
    },
  };
}

/** A search in the values of an event, not in its field names. */
function find({ sequence, type, body }: EventText, wanted: string): SearchHit | undefined {
  if (!body.toLowerCase().includes(JSON.stringify(wanted).slice(1, -1))) return undefined;
  const { data } = JSON.parse(body) as { data: unknown };
  for (const text of stringsIn(data)) {
    const at = text.toLowerCase().indexOf(wanted);
    if (at < 0) continue;
    const end = at + wanted.length;
    return {
      sequence,
      type,
      before: text.slice(Math.max(0, at - 40), at),
      match: text.slice(at, end),
      after: text.slice(end, end + 80),
    };
  }
  return undefined;
}

function* stringsIn(value: unknown): Generator<string> {
  if (typeof value === "string") yield value;
  else if (typeof value === "object" && value !== null)
    for (const one of Object.values(value)) yield* stringsIn(one);
}

async function readRaw(server: ServerLog, after: number, limit: number): Promise<Map<number, string>> {
  const texts = await server.page(after, limit, true);
  return new Map(
    texts.map((text) => {
      const { sequence, raw } = JSON.parse(text) as { sequence: number; raw?: unknown };
      return [sequence, raw === undefined ? "" : JSON.stringify(raw).slice(0, MAX_LINE)];
    }),
  );
}
