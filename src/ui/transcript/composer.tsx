import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { say } from "../core/announce.ts";
import { client, createKey, may, wordsOf } from "../core/api.ts";
import { useKeys } from "../core/keys.ts";
import { isFile, type SessionView } from "../core/session-view.ts";
import { Icon } from "../parts/icon.tsx";

/** A text that was not sent yet. A second try of the same text has the same key, so it is accepted once. */
interface Draft {
  readonly text: string;
  readonly key: string;
}

/** By session. */
const drafts = signal<Readonly<Record<string, Draft>>>({});
/** Grows when the field is to take the focus. */
const calls = signal(0);

/** Where a message is written. In the past there is none: only a fork leads on from there. */
export function Composer({ view }: { view: SessionView }): JSX.Element | null {
  const field = useRef<HTMLTextAreaElement>(null);
  const [busy, setBusy] = useState(false);
  const { id } = view;
  const text = drafts.value[id]?.text ?? "";
  const moment = view.moment.value;
  const isRunning = moment !== undefined && moment.turnId !== null;
  const setText = (next: string): void =>
    void (drafts.value = { ...drafts.value, [id]: { text: next, key: createKey() } });
  // Before the next event of the browser: what is typed at once goes into the field and is no shortcut.
  useLayoutEffect(() => {
    if (calls.value > 0) field.current?.focus();
    calls.value = 0;
  }, [calls.value]);

  const send = async (delivery: "queue" | "steer"): Promise<void> => {
    if (text.trim() === "" || busy) return;
    setBusy(true);
    const idempotencyKey = drafts.value[id]?.key ?? createKey();
    try {
      await retry(() =>
        client.sendMessage(id, { message: text, ...(isRunning && { delivery }) }, { idempotencyKey }),
      );
      setText("");
      view.seek(null);
    } catch (error) {
      say(wordsOf(error), "bad");
    } finally {
      setBusy(false);
      field.current?.focus();
    }
  };
  useKeys([
    { keys: "Mod+Enter", label: "send", inText: true, run: () => void send("queue") },
    { keys: "Alt+Enter", label: "steer the running turn", inText: true, run: () => void send("steer") },
  ]);
  if (isFile() || !may("control") || view.at.value !== null || !moment) return null;
  if (moment.ended !== null || moment.deleted)
    return <p class="composer muted">The session has ended. Fork it from a checkpoint to go on.</p>;
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        void send("queue");
      }}
    >
      <textarea
        ref={field}
        rows={Math.min(8, Math.max(1, text.split("\n").length))}
        value={text}
        aria-label="Message"
        placeholder={isRunning ? "waits for the turn’s end" : "message"}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.altKey || event.isComposing) return;
          event.preventDefault();
          void send("queue");
        }}
      />
      {isRunning && (
        <button type="button" disabled={busy || text === ""} onClick={() => void send("steer")}>
          Steer
        </button>
      )}
      <button class="primary" disabled={busy || text === ""}>
        {isRunning ? "Queue" : "Send"}
      </button>
      {isRunning && (
        <button
          type="button"
          class="danger"
          disabled={moment.interrupted}
          onClick={() => void stopTurn(view)}
        >
          <Icon name="stop" /> {moment.interrupted ? "Stopping…" : "Stop"}
        </button>
      )}
    </form>
  );
}

/** Puts the cursor into the field for messages, once it is on the screen. */
export function callComposer(): void {
  const field = document.querySelector<HTMLTextAreaElement>(".composer textarea");
  if (field) field.focus();
  else calls.value += 1;
}

export async function stopTurn(view: SessionView): Promise<void> {
  await client.interrupt(view.id).catch((error: unknown) => say(wordsOf(error), "bad"));
}

/** A lost answer is asked for again with the same key: the message is accepted once. */
async function retry<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 0; ; tries++) {
    try {
      return await work();
    } catch (error) {
      const isLost = (error as { status?: number }).status === 0;
      if (!isLost || tries === 4) throw error;
      await new Promise((resolve) => setTimeout(resolve, 300 * 2 ** tries));
    }
  }
}
