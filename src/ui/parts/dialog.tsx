import type { ComponentChildren, JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { wordsOf } from "../core/api.ts";

/** A modal dialog; Escape and the backdrop close it. */
export function Dialog(props: {
  readonly label: string;
  readonly wide?: boolean;
  onClose(): void;
  readonly children: ComponentChildren;
}): JSX.Element {
  const box = useRef<HTMLDialogElement>(null);
  // Before the next event of the browser: an Escape pressed at once closes the dialog.
  useLayoutEffect(() => {
    const before = document.activeElement;
    box.current?.showModal();
    return () => (before instanceof HTMLElement ? before.focus() : undefined);
  }, []);
  return (
    <dialog
      ref={box}
      class={props.wide ? "wide" : ""}
      aria-label={props.label}
      // Not `cancel`, which a browser leaves out where nobody has touched the page since the last one.
      onClose={props.onClose}
      onClick={(event) => {
        if (event.target === box.current) props.onClose();
      }}
    >
      {props.children}
    </dialog>
  );
}

/**
 * What a dialog does when it is confirmed. It closes after a success; a failure is said in it, because what lies
 * below a dialog cannot be seen, and nothing that was written is lost.
 */
export function useAttempt(onClose: () => void): {
  readonly failure: string;
  readonly busy: boolean;
  attempt(work: () => Promise<unknown>): void;
} {
  const [failure, setFailure] = useState("");
  const [busy, setBusy] = useState(false);
  const attempt = (work: () => Promise<unknown>): void => {
    setBusy(true);
    setFailure("");
    work()
      .then(onClose, (error: unknown) => setFailure(wordsOf(error)))
      .finally(() => setBusy(false));
  };
  return { failure, busy, attempt };
}

/** Asks before something that cannot be undone. With `typed`, a word has to be written first. */
export function Confirm(props: {
  readonly title: string;
  readonly detail: string;
  readonly action: string;
  readonly typed?: string;
  onYes(): Promise<unknown>;
  onClose(): void;
}): JSX.Element {
  const { failure, busy, attempt } = useAttempt(props.onClose);
  const [text, setText] = useState("");
  const isReady = props.typed === undefined || text === props.typed;
  return (
    <Dialog label={props.title} onClose={props.onClose}>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          if (isReady) attempt(props.onYes);
        }}
      >
        <h2>{props.title}</h2>
        <p>{props.detail}</p>
        {props.typed !== undefined && (
          <label>
            Write <code>{props.typed}</code> to confirm
            <input value={text} autocomplete="off" onInput={(event) => setText(event.currentTarget.value)} />
          </label>
        )}
        {failure !== "" && (
          <p class="error" role="alert">
            {failure}
          </p>
        )}
        <div class="buttons">
          <button type="button" onClick={props.onClose}>
            Cancel
          </button>
          <button type="submit" class="danger" disabled={!isReady || busy}>
            {props.action}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
