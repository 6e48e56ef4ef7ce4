import { type ReadonlySignal, signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import type { SessionView } from "../core/session-view.ts";
import type { Span } from "../log/protocol.ts";

export interface SpanList {
  readonly spans: readonly Span[];
  /** The last event that is counted. */
  readonly head: number;
  readonly failure?: string;
}

/** The spans of one session on the main thread: only what changed is sent to it. */
class SpanStore {
  readonly list = signal<SpanList>({ spans: [], head: 0 });
  readonly #view: SessionView;
  #since = { log: 0, version: 0 };
  #spans: Span[] = [];
  #busy = false;

  constructor(view: SessionView) {
    this.#view = view;
  }

  /** Asks for changes, one request at a time. */
  async refresh(head: number): Promise<void> {
    if (this.#busy || this.list.value.head === head) return;
    this.#busy = true;
    try {
      const { log, version, head: last, spans } = await this.#view.call("spans", this.#since);
      if (log !== this.#since.log) this.#spans = [];
      for (const span of spans) this.#spans[span.index] = span;
      this.#since = { log, version };
      this.list.value = { spans: this.#spans.slice(), head: last };
    } catch (error) {
      this.list.value = {
        ...this.list.value,
        head,
        failure: error instanceof Error ? error.message : String(error),
      };
    } finally {
      this.#busy = false;
    }
  }
}

const stores = new WeakMap<SessionView, SpanStore>();

/** The spans up to the shown moment, as they were then. */
export function useSpans(view: SessionView): SpanList {
  let store = stores.get(view);
  if (!store) stores.set(view, (store = new SpanStore(view)));
  const { refresh, list } = {
    refresh: store.refresh.bind(store),
    list: store.list as ReadonlySignal<SpanList>,
  };
  const screen = view.screen.value;
  const head = screen?.head ?? 0;
  const { value } = list;
  useEffect(() => void refresh(head), [head, value]);
  const [at, time] = [screen?.at ?? 0, screen?.atTime ?? 0];
  const isHead = at >= head;
  return useMemo(
    () => (isHead ? value : { ...value, spans: clipSpans(value.spans, at) }),
    [value, isHead, at, time],
  );
}

/** The spans as they were after an event. */
export function clipSpans(spans: readonly Span[], at: number): Span[] {
  const known: Span[] = [];
  for (const span of spans) {
    if (span.sequence > at) break;
    if (span.last !== 0 && span.last <= at) known.push(span);
    else {
      const { usage: _usage, ...rest } = span;
      const isSilent = span.firstTokenAt > at;
      known.push({
        ...rest,
        last: 0,
        end: 0,
        failed: false,
        ...(isSilent && { firstToken: 0, firstTokenAt: 0 }),
      });
    }
  }
  return known;
}
