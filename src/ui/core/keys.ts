import { useLayoutEffect } from "preact/hooks";

/** A key and its effect. `keys` is a name as `nameOf` makes it: "j", "Shift+ArrowLeft", "Mod+k". */
export interface Binding {
  readonly keys: string;
  readonly label: string;
  run(event: KeyboardEvent): void;
  /** Works also while a text is edited. */
  readonly inText?: boolean;
}

const layers: (readonly Binding[])[] = [];

/** The bindings that work now, newest layer first. */
export function activeBindings(): readonly Binding[] {
  return layers.toReversed().flat();
}

/** Binds keys while the component is shown. */
export function useKeys(bindings: readonly Binding[]): void {
  // Before the next event of the browser: a key acts on what was chosen a moment ago.
  useLayoutEffect(() => {
    layers.push(bindings);
    return () => void layers.splice(layers.indexOf(bindings), 1);
  });
}

export function watchKeys(): void {
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing) return;
    const name = nameOf(event);
    const isText = isEditing(event.target);
    const isDialog = document.querySelector("dialog[open]") !== null;
    // While a dialog is open, only the key of the palette works. The dialog has its own Escape.
    if (isDialog && name !== "Mod+k") return;
    for (const binding of activeBindings()) {
      if (binding.keys !== name || (isText && !binding.inText)) continue;
      // A focused control has its own Enter and space.
      if ((name === "Enter" || name === " ") && isControl(event.target)) return;
      event.preventDefault();
      return binding.run(event);
    }
  });
}

function nameOf(event: KeyboardEvent): string {
  const { key } = event;
  const isLetter = key.length === 1;
  return [
    (event.metaKey || event.ctrlKey) && "Mod",
    event.altKey && "Alt",
    event.shiftKey && !isLetter && "Shift",
    key,
  ]
    .filter(Boolean)
    .join("+");
}

function isEditing(target: EventTarget | null): boolean {
  return target instanceof Element && target.matches("input, textarea, select, [contenteditable]");
}

function isControl(target: EventTarget | null): boolean {
  return target instanceof Element && target.matches("button, a, summary, [role=tab], [role=option]");
}
