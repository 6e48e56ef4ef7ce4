import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

/** A list of rows of one height, of which only the visible ones exist. */
export function Lines(props: {
  readonly count: number;
  readonly height: number;
  readonly label: string;
  readonly role?: "list" | "listbox" | "table";
  /** Stays at the end while it grows; somebody who reads further up stays there. */
  readonly follow?: boolean;
  /** Scrolls here when it changes. */
  readonly focus?: number | undefined;
  render(index: number): ComponentChildren;
  onWindow?(from: number, count: number): void;
}): JSX.Element {
  const { count, height, focus, render, onWindow, follow = false } = props;
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [room, setRoom] = useState(600);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const watch = new ResizeObserver(() => setRoom(element.clientHeight));
    watch.observe(element);
    return () => watch.disconnect();
  }, []);
  useEffect(() => {
    const element = box.current;
    if (!element || focus === undefined) return;
    const at = focus * height;
    if (at < element.scrollTop) element.scrollTop = at;
    if (at + height > element.scrollTop + element.clientHeight)
      element.scrollTop = at + height - element.clientHeight;
  }, [focus]);
  const before = useRef(0);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const isAtEnd = element.scrollTop + element.clientHeight >= (before.current - 1) * height;
    if (follow && isAtEnd) element.scrollTop = count * height;
    before.current = count;
  }, [count, follow, room]);
  const from = Math.max(0, Math.floor(top / height) - 8);
  const to = Math.min(count, Math.ceil((top + room) / height) + 8);
  useEffect(() => onWindow?.(from, to - from), [from, to]);
  const shown: ComponentChildren[] = [];
  for (let index = from; index < to; index++) shown.push(render(index));
  return (
    <div
      class="lines"
      ref={box}
      tabIndex={0}
      role={props.role ?? "list"}
      aria-label={props.label}
      onScroll={(event) => setTop(event.currentTarget.scrollTop)}
    >
      <div class="lines-room" role="presentation" style={{ height: `${count * height}px` }}>
        <div class="lines-shown" role="presentation" style={{ transform: `translateY(${from * height}px)` }}>
          {shown}
        </div>
      </div>
    </div>
  );
}
