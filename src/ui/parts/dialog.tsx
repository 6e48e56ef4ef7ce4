import type { ComponentChildren, JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

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

/** Asks before something that cannot be undone. With `typed`, a word has to be written first. */
export function Confirm(props: {
  readonly title: string;
  readonly detail: string;
  readonly action: string;
  readonly typed?: string;
  onYes(): void;
  onClose(): void;
}): JSX.Element {
  const [text, setText] = useState("");
  const isReady = props.typed === undefined || text === props.typed;
  return (
    <Dialog label={props.title} onClose={props.onClose}>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          if (!isReady) return;
          props.onYes();
          props.onClose();
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
        <div class="buttons">
          <button type="button" onClick={props.onClose}>
            Cancel
          </button>
          <button type="submit" class="danger" disabled={!isReady}>
            {props.action}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
