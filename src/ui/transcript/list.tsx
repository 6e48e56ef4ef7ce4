import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { SessionView } from "../core/session-view.ts";
import type { RowView, Screen } from "../log/protocol.ts";
import { Guard } from "../parts/guard.tsx";
import { RowPlace } from "./copy.tsx";
import { opensAtFirst, RowBody } from "./rows.tsx";

const GUESS = 44;
/** Beyond the edges of the box: pixels, and rows. */
const MARGIN = 300;
/** Somebody who scrolls is faster than the rows of another screen. */
const SCROLL_MARGIN = 900;
const OVERSCAN = 1;

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
  const room = useRef(0);
  /** Where the list was scrolled to last. A change of heights alone moves nobody away from the end. */
  const place = useRef(0);
  const heights = useRef(new Heights());
  const follows = useRef(true);
  const filter = useRef("");
  const made = useRef<ReadonlyMap<RowView, JSX.Element>>(new Map());
  const screen = view.screen.value;
  const count = screen?.rowCount ?? 0;
  const key = `${view.all.value}:${view.hidden.value.join()}:${screen?.base}`;
  if (filter.current !== key) {
    filter.current = key;
    heights.current.reset();
  }

  const ask = (): void => {
    const [element, shown] = [box.current, view.screen.peek()];
    if (!element || !shown || room.current === 0) return;
    const known = view.window.peek();
    const next = follows.current
      ? chooseEnd(heights.current, shown, room.current, known)
      : chooseMiddle(heights.current, shown, { top: element.scrollTop, room: room.current }, known);
    if (next !== known) view.window.value = next;
  };
  useEffect(() => {
    const element = box.current as HTMLDivElement;
    const watch = new ResizeObserver(() => {
      room.current = element.clientHeight;
      lay.current();
    });
    watch.observe(element);
    // Rows grow by themselves: a narrower window, a picture, colours of code that come later.
    const rows = element.querySelector(".lines-shown");
    if (rows) watch.observe(rows);
    return () => watch.disconnect();
  }, []);
  useEffect(() => {
    follows.current = true;
    ask();
  }, [view.at.value, view.ends.value]);
  const lay = useRef((): void => {});
  lay.current = () => {
    const element = box.current;
    if (!element || !screen) return;
    measure(element, heights.current, screen, follows.current);
    const total = heights.current.top(count);
    const whole = element.firstElementChild as HTMLElement;
    whole.style.height = `${total}px`;
    const shown = whole.firstElementChild as HTMLElement;
    shown.style.transform = `translateY(${heights.current.top(screen.from)}px)`;
    if (follows.current) element.scrollTop = total;
    place.current = element.scrollTop;
    ask();
  };
  useLayoutEffect(() => lay.current(), [screen, view.opened.value, view.openAll.value]);
  useEffect(() => {
    const { value } = view.selected;
    if (value === null) return;
    box.current?.querySelector(`[data-sequence="${value}"]`)?.scrollIntoView({ block: "nearest" });
  }, [view.selected.value]);

  // A row that has not changed is the same element as before, so that nothing of it is compared.
  const rows = new Map<RowView, JSX.Element>();
  screen?.rows.forEach((row, index) => {
    const position = screen.from + index + 1;
    const known = made.current.get(row);
    const isSame = (known?.props as { position?: number } | undefined)?.position === position;
    rows.set(
      row,
      known && isSame ? (
        known
      ) : (
        <TranscriptRow key={row.sequence} view={view} row={row} position={position} />
      ),
    );
  });
  made.current = rows;
  /** Somebody who turns back is not pulled to the end by the next event. */
  const turnBack = (isUp: boolean): void => {
    if (isUp && (box.current?.scrollTop ?? 0) > 0) follows.current = false;
  };
  return (
    <div
      class="transcript"
      ref={box}
      tabIndex={0}
      role={count > 0 ? "feed" : "region"}
      aria-label="Transcript"
      aria-busy={screen?.link.state === "opening"}
      onWheel={(event) => turnBack(event.deltaY < 0)}
      onKeyDown={(event) => turnBack(["ArrowUp", "PageUp", "Home"].includes(event.key))}
      onScroll={(event) => {
        const { scrollTop, scrollHeight, clientHeight } = event.currentTarget;
        if (scrollTop + clientHeight >= scrollHeight - 24) follows.current = true;
        else if (scrollTop < place.current) follows.current = false;
        place.current = scrollTop;
        ask();
      }}
    >
      <div class="lines-room" role="presentation">
        <div class="lines-shown" role="presentation">
          {[...rows.values()]}
        </div>
      </div>
      {screen && count === 0 && screen.complete && <Empty />}
    </div>
  );
}

type Window = SessionView["window"]["value"];

/** The last rows, as many as fill the box. */
function chooseEnd(heights: Heights, screen: Screen, room: number, known: Window): Window {
  const wanted = room + MARGIN;
  const { from, rowCount } = screen;
  if (rowCount === 0) return known;
  let count = 0;
  while (count < rowCount - from && heights.top(rowCount) - heights.top(rowCount - count) < wanted)
    count += 1;
  const filled = heights.top(rowCount) - heights.top(rowCount - count);
  if (filled < wanted && from > 0)
    count = Math.max(known.count, count + Math.ceil((wanted - filled) / GUESS));
  else count += OVERSCAN;
  const fits = known.end && known.count >= count && known.count <= count * 2 + OVERSCAN;
  return fits ? known : { from, count, end: true };
}

/** The rows around a place. */
function chooseMiddle(
  heights: Heights,
  { rowCount }: Screen,
  { top, room }: { top: number; room: number },
  known: Window,
): Window {
  const first = heights.at(top - SCROLL_MARGIN, rowCount);
  const last = heights.at(top + room + SCROLL_MARGIN, rowCount);
  const from = Math.max(0, first - OVERSCAN);
  const count = last - from + 1 + OVERSCAN;
  const covers = !known.end && known.from <= first && known.from + known.count > last;
  return covers && known.count <= count * 2 ? known : { from, count, end: false };
}

function Empty(): JSX.Element {
  return (
    <div class="empty">
      <p>Nothing has happened here yet.</p>
      <p class="muted">The first message starts the agent.</p>
    </div>
  );
}

function TranscriptRow(props: { view: SessionView; row: RowView; position: number }): JSX.Element {
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
      aria-setsize={view.setSize.value}
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

function measure(element: HTMLElement, heights: Heights, screen: Screen, follows: boolean): void {
  const before = follows ? 0 : element.scrollTop;
  let shift = 0;
  element.querySelectorAll<HTMLElement>(".row").forEach((row, index) => {
    const position = screen.from + index;
    const [top, old] = [heights.top(position), heights.top(position + 1) - heights.top(position)];
    const height = row.getBoundingClientRect().height;
    if (heights.set(position, height) && top + old <= before) shift += height - old;
  });
  // Rows above the screen that turned out taller must not move what is read.
  if (shift !== 0) element.scrollTop = before + shift;
}
