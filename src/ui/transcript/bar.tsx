import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { toClock, toCount } from "../core/format.ts";
import { useKeys } from "../core/keys.ts";
import type { SessionView } from "../core/session-view.ts";
import type { Mark } from "../log/protocol.ts";
import { Icon } from "../parts/icon.tsx";

const SPEEDS = [0.5, 1, 2, 5, 10];
/** The longest pause between two events while playing. */
const MAX_PAUSE = 1_500;

const playing = signal(false);
const speed = signal(1);

/** The log as a bar: every event has its place, and the knob is the shown moment. */
export function Bar({ view }: { view: SessionView }): JSX.Element | null {
  const screen = view.screen.value;
  usePlay(view);
  useKeys([
    { keys: " ", label: "play or pause", run: () => togglePlay(view) },
    { keys: "ArrowLeft", label: "one event back", run: () => view.seek(view.now - 1) },
    { keys: "ArrowRight", label: "one event on", run: () => step(view, 1) },
    { keys: "Shift+ArrowLeft", label: "one turn back", run: () => view.stepTurn(-1) },
    { keys: "Shift+ArrowRight", label: "one turn on", run: () => view.stepTurn(1) },
    { keys: "l", label: "live", run: () => view.seek(null) },
  ]);
  if (!screen) return null;
  const { base, head, link } = screen;
  const at = view.at.value ?? head;
  const isLive = view.at.value === null;
  const length = Math.max(1, head - base);
  return (
    <div class="bar" role="group" aria-label="Time">
      <div class="bar-buttons">
        <button aria-label="One turn back" onClick={() => view.stepTurn(-1)}>
          <Icon name="first" />
        </button>
        <button aria-label="One event back" onClick={() => view.seek(at - 1)}>
          <Icon name="back" />
        </button>
        <button aria-label={playing.value ? "Pause" : "Play"} onClick={() => togglePlay(view)}>
          <Icon name={playing.value ? "pause" : "play"} />
        </button>
        <button aria-label="One event on" onClick={() => step(view, 1)}>
          <Icon name="next" />
        </button>
        <button aria-label="One turn on" onClick={() => view.stepTurn(1)}>
          <Icon name="last" />
        </button>
        <button
          class="speed"
          aria-label={`Speed ${speed.value}`}
          onClick={() => (speed.value = SPEEDS[(SPEEDS.indexOf(speed.value) + 1) % SPEEDS.length] ?? 1)}
        >
          {speed.value}×
        </button>
      </div>
      <div class="bar-track">
        <svg class="bar-marks" viewBox="0 0 1000 16" preserveAspectRatio="none" aria-hidden="true">
          {[...toPaths(view.marks.value, base, length)].map(([kind, path]) => (
            <path key={kind} class={`mark-${kind}`} d={path} />
          ))}
        </svg>
        <input
          type="range"
          min={Math.min(base + 1, head)}
          max={head}
          value={at}
          aria-label="Moment of the log"
          aria-valuetext={`event ${at} of ${head}, ${toClock(screen.atTime)}`}
          onInput={(event) => {
            const { value, max } = event.currentTarget;
            view.seek(value === max ? null : Number(value));
          }}
        />
      </div>
      <div class="bar-facts">
        <span class="bar-place">
          {toCount(at)} / {toCount(head)}
        </span>
        <time>{toClock(screen.atTime)}</time>
        <Gapless gaps={link.gaps} doubles={link.doubles} complete={screen.complete} />
        <button
          class={`live${isLive && link.state === "live" ? " live-on" : ""}${link.state === "lost" ? " live-lost" : ""}`}
          aria-pressed={isLive}
          onClick={() => view.seek(null)}
        >
          {LINK_WORDS[link.state]}
        </button>
      </div>
    </div>
  );
}

const LINK_WORDS = {
  opening: "opening…",
  "catching-up": "reading…",
  live: "live ◉",
  lost: "reconnecting…",
  resting: "resting…",
  over: "ended ■",
  offline: "file ■",
} as const;

/** Proof on the screen: every sequence came, once. */
function Gapless(props: { gaps: number; doubles: number; complete: boolean }): JSX.Element {
  if (props.gaps + props.doubles > 0)
    return (
      <span class="gapless bad">
        {props.gaps} missing, {props.doubles} twice ✕
      </span>
    );
  return <span class="gapless">{props.complete ? "gapless ✓" : "…"}</span>;
}

/** At most a few hundred marks: those that fall on one place are one, and requests and errors come before turns. */
function thin(marks: readonly Mark[], base: number, length: number): Iterable<Mark> {
  const places = new Map<number, Mark>();
  for (const mark of marks) {
    const place = Math.round(((mark.sequence - base) / length) * 300);
    const known = places.get(place);
    if (!known || known.kind === "turn") places.set(place, mark);
  }
  return places.values();
}

/** One path for each kind: all places change with every event, and hundreds of elements would be slow. */
function toPaths(marks: readonly Mark[], base: number, length: number): Map<Mark["kind"], string> {
  const paths = new Map<Mark["kind"], string>();
  for (const { kind, sequence } of thin(marks, base, length)) {
    const x = (((sequence - base) / length) * 1000 - 1).toFixed(1);
    const box = kind === "turn" ? `M${x} 4h1.5v8h-1.5z` : `M${x} 0h3v16h-3z`;
    paths.set(kind, (paths.get(kind) ?? "") + box);
  }
  return paths;
}

function step(view: SessionView, by: number): void {
  const head = view.screen.value?.head ?? 0;
  view.seek(view.now + by >= head ? null : view.now + by);
}

function togglePlay(view: SessionView): void {
  if (!playing.value && view.at.value === null) view.seek((view.screen.value?.base ?? 0) + 1);
  playing.value = !playing.value;
}

/** Moves the moment on with the pauses of the log; deltas of one item are joined. */
function usePlay(view: SessionView): void {
  const at = view.at.value;
  useEffect(() => {
    if (!playing.value) return;
    if (at === null) {
      playing.value = false;
      return;
    }
    let stopped = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    void view.call("events", { from: at, count: 40 }).then((events) => {
      if (stopped) return;
      const [now, ...later] = events;
      let next = later.findIndex(({ type }) => type !== "item.delta");
      if (next > 8 || next < 0) next = Math.min(8, later.length - 1);
      const target = later[next];
      if (!now || !target) return view.seek(null);
      const pause = Math.min(MAX_PAUSE, Math.max(16, (target.time - now.time) / speed.value));
      timer = setTimeout(() => view.seek(target.sequence), pause);
    });
    return () => {
      stopped = true;
      clearTimeout(timer);
    };
  }, [at, playing.value, speed.value]);
  useEffect(() => () => void (playing.value = false), []);
}
