import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { SessionView } from "../core/session-view.ts";
import type { RowView, Screen } from "../log/protocol.ts";
import { Guard } from "../parts/guard.tsx";
import { RowPlace } from "./copy.tsx";
import { opensAtFirst, RowBody } from "./rows.tsx";

const GUESS = 44;
const OVERSCAN = 6;

/** The heights of rows, measured when they were shown and guessed otherwise. */
class Heights {
  #heights: number[] = [];
  #sums: number[] = [0];

  reset(): void {
    this.#heights = [];
    this.#sums = [0];
  }

  set(index: number, height: number): boolean {
    if (Math.abs((this.#heights[index] ?? GUESS) - height) < 0.5) return false;
    this.#heights[index] = height;
    this.#sums.length = Math.min(this.#sums.length, index + 1);
    return true;
  }

  /** Where a row begins. */
  top(index: number): number {
    for (let next = this.#sums.length; next <= index; next++)
      this.#sums[next] = (this.#sums[next - 1] as number) + (this.#heights[next - 1] ?? GUESS);
    return this.#sums[index] as number;
  }

  /** The row at a place. */
  at(place: number, count: number): number {
    let [low, high] = [0, count];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.top(middle + 1) <= place) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** The rows of the shown moment. Only those on the screen exist; at the end the list follows the log. */
export function TranscriptList({ view }: { view: SessionView }): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const heights = useRef(new Heights());
  const follows = useRef(true);
  const filter = useRef("");
  const screen = view.screen.value;
  const count = screen?.rowCount ?? 0;
  const key = `${view.all.value}:${view.hidden.value.join()}:${screen?.base}`;
  if (filter.current !== key) {
    filter.current = key;
    heights.current.reset();
  }

  const ask = (): void => {
    const element = box.current;
    if (!element) return;
    const room = Math.ceil(element.clientHeight / 30) + 2 * OVERSCAN;
    const top = follows.current ? Number.MAX_SAFE_INTEGER : element.scrollTop;
    const first = Math.min(heights.current.at(top, count), Math.max(0, count - room + OVERSCAN));
    const from = Math.max(0, first - OVERSCAN);
    const known = view.window.value;
    if (known.from !== from || known.count !== room) view.window.value = { from, count: room };
  };
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const watch = new ResizeObserver(ask);
    watch.observe(element);
    return () => watch.disconnect();
  });
  useEffect(() => {
    follows.current = true;
    ask();
  }, [view.at.value, view.ends.value]);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element || !screen) return;
    measure(element, heights.current, screen);
    const total = heights.current.top(count);
    const room = element.firstElementChild as HTMLElement;
    room.style.height = `${total}px`;
    const shown = room.firstElementChild as HTMLElement;
    shown.style.transform = `translateY(${heights.current.top(screen.from)}px)`;
    if (follows.current) element.scrollTop = total;
    ask();
  });
  useEffect(() => {
    const { value } = view.selected;
    if (value === null) return;
    box.current?.querySelector(`[data-sequence="${value}"]`)?.scrollIntoView({ block: "nearest" });
  }, [view.selected.value]);

  return (
    <div
      class="transcript"
      ref={box}
      tabIndex={0}
      role="feed"
      aria-label="Transcript"
      aria-busy={screen?.link.state === "opening"}
      onScroll={(event) => {
        const { scrollTop, scrollHeight, clientHeight } = event.currentTarget;
        follows.current = scrollTop + clientHeight >= scrollHeight - 24;
        ask();
      }}
    >
      <div class="lines-room" role="presentation">
        <div class="lines-shown" role="presentation">
          {screen?.rows.map((row, index) => (
            <TranscriptRow
              key={row.sequence}
              view={view}
              row={row}
              position={screen.from + index + 1}
              count={count}
            />
          ))}
        </div>
      </div>
      {screen && count === 0 && screen.complete && <Empty />}
    </div>
  );
}

function Empty(): JSX.Element {
  return (
    <div class="empty">
      <p>Nothing has happened here yet.</p>
      <p class="muted">The first message starts the agent.</p>
    </div>
  );
}

function TranscriptRow(props: {
  view: SessionView;
  row: RowView;
  position: number;
  count: number;
}): JSX.Element {
  const { view, row } = props;
  const isSelected = view.selected.value === row.sequence;
  const isOpen = view.opened.value.get(row.sequence) ?? (view.openAll.value || opensAtFirst(row));
  return (
    <article
      class={`row row-${row.kind} depth-${row.depth}${isSelected ? " selected" : ""}`}
      data-sequence={row.sequence}
      data-type={row.type}
      data-last={row.last}
      aria-posinset={props.position}
      aria-setsize={props.count}
      aria-label={`${row.kind}, event ${row.sequence}`}
      onClick={() => (view.selected.value = row.sequence)}
    >
      <RowPlace view={view} row={row} />
      <div class="row-body">
        <Guard label={`Event ${row.sequence}`}>
          <RowBody view={view} row={row} isOpen={isOpen} />
        </Guard>
      </div>
    </article>
  );
}

function measure(element: HTMLElement, heights: Heights, screen: Screen): void {
  const rows = element.querySelectorAll<HTMLElement>(".row");
  const before = element.scrollTop;
  let shift = 0;
  rows.forEach((row, index) => {
    const position = screen.from + index;
    const [top, old] = [heights.top(position), heights.top(position + 1) - heights.top(position)];
    const height = row.getBoundingClientRect().height;
    if (heights.set(position, height) && top + old <= before) shift += height - old;
  });
  // Rows above the screen that turned out taller must not move what is read.
  if (shift !== 0) element.scrollTop = before + shift;
}
