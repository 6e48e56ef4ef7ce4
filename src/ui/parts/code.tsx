import { signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { toVisible } from "../core/format.ts";

type Paint = (text: string, language: string) => ComponentChildren | undefined;

/** Loaded with the first code on the screen. */
const paint = signal<Paint | undefined>(undefined);
let isLoading = false;

const MAX_PAINTED = 20_000;
const FIRST_LINES = 300;

/** Code, with colours for the common languages. */
export function Code({ text, language = "" }: { text: string; language?: string }): JSX.Element {
  const [isWhole, setWhole] = useState(false);
  const lines = useMemo(() => countLines(text), [text]);
  const shown = useMemo(
    () => toVisible(isWhole || lines <= FIRST_LINES ? text : text.split("\n", FIRST_LINES).join("\n")),
    [text, isWhole],
  );
  const isPaintable = language !== "" && shown.length <= MAX_PAINTED;
  if (isPaintable && !isLoading) {
    isLoading = true;
    import("./highlight.ts").then(
      (loaded) => (paint.value = loaded.paint),
      // The code stays plain. The next one on the screen tries again.
      () => (isLoading = false),
    );
  }
  const painted = useMemo(
    () => (isPaintable ? paint.value?.(shown, language) : undefined) ?? shown,
    [shown, language, paint.value],
  );
  return (
    <>
      <pre class="code" tabIndex={0}>
        <code>{painted}</code>
      </pre>
      {shown.length < text.length && (
        <button class="more" onClick={() => setWhole(true)}>
          Show all {lines} lines
        </button>
      )}
    </>
  );
}

export function countLines(text: string): number {
  let count = 1;
  for (let at = text.indexOf("\n"); at !== -1; at = text.indexOf("\n", at + 1)) count += 1;
  return count;
}
