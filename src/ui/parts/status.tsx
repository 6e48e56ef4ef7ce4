import type { JSX } from "preact";

const SHAPES: Readonly<Record<string, { shape: string; word: string }>> = {
  waiting: { shape: "●", word: "waits" },
  running: { shape: "◐", word: "runs" },
  starting: { shape: "◔", word: "starts" },
  retrying: { shape: "◑", word: "retries" },
  idle: { shape: "○", word: "idle" },
  ended: { shape: "■", word: "ended" },
  paused: { shape: "‖", word: "paused" },
  completed: { shape: "✓", word: "ok" },
  failed: { shape: "✕", word: "failed" },
  interrupted: { shape: "■", word: "stopped" },
};

/** A status as a shape and a word, never as a colour alone. */
export function Status({ status }: { status: string }): JSX.Element {
  const { shape, word } = SHAPES[status] ?? { shape: "·", word: status };
  return (
    <span class={`status status-${status}`}>
      <span class="shape" aria-hidden="true">
        {shape}
      </span>
      {word}
    </span>
  );
}
