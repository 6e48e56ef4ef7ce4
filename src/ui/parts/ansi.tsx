import { Fragment, type JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { type Piece, paint } from "./terminal-text.ts";

const FIRST_CHARS = 20_000;
/** Lines that are shown before somebody asks for the rest. */
const FIRST_LINES = 300;

/** Output of a program with its colours, as a terminal would leave it on the screen. */
export function Ansi({ text }: { text: string }): JSX.Element {
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? text : text.slice(-FIRST_CHARS);
  const lines = useMemo(() => paint(shown), [shown]);
  const last = isWhole ? lines : lines.slice(-FIRST_LINES);
  return (
    <>
      {(shown.length < text.length || last.length < lines.length) && (
        <button class="more" onClick={() => setWhole(true)}>
          Show the output before this
        </button>
      )}
      <pre class="ansi" tabIndex={0}>
        {last.map((pieces, index) => (
          <Fragment key={index}>
            {index > 0 && "\n"}
            {pieces.map((piece, at) => (
              <Part key={at} piece={piece} />
            ))}
          </Fragment>
        ))}
      </pre>
    </>
  );
}

/** One piece of a line. */
export function Part({ piece: { text, classes } }: { piece: Piece }): JSX.Element {
  return classes === "" ? <>{text}</> : <span class={classes}>{text}</span>;
}
