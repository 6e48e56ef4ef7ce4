import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { say } from "../../core/announce.ts";
import { wordsOf } from "../../core/api.ts";
import { toBytes, toCount, toLine, toVisible } from "../../core/format.ts";
import { Lines } from "../../parts/lines.tsx";
import type { Entry, Source } from "./sources.ts";

/** The beginning of a file that is shown. */
const MAX_BYTES = 2_000_000;
const MAX_LINE = 2_000;
const HEIGHT = 20;

type Content = { readonly text: string; readonly whole: boolean } | { readonly reason: string };

/** One file as text, by its lines. */
export function FileView(props: {
  readonly source: Source;
  readonly entry: Entry;
  readonly line: number | undefined;
  onClose(): void;
}): JSX.Element {
  const { source, entry } = props;
  const [content, setContent] = useState<Content | undefined>(undefined);
  const [line, setLine] = useState(props.line);
  useEffect(() => {
    const asked = new AbortController();
    setContent(undefined);
    setLine(props.line);
    readText(source, entry.path, asked.signal).then(
      (found) => asked.signal.aborted || setContent(found),
      (error: unknown) => asked.signal.aborted || setContent({ reason: wordsOf(error) }),
    );
    return () => asked.abort();
  }, [source.key, entry.path, props.line]);
  const lines = useMemo(() => (content && "text" in content ? content.text.split("\n") : []), [content]);
  return (
    <section class="file-view" aria-label={`File ${toLine(entry.path, 120)}`}>
      <div class="toolbar">
        <code class="file-path">{toLine(entry.path, 200)}</code>
        {entry.size > 0 && <span class="muted">{toBytes(entry.size)}</span>}
        <button onClick={() => void download(source, entry)}>Download</button>
        {lines.length > 1 && (
          <label>
            Line{" "}
            <input
              type="number"
              min={1}
              max={lines.length}
              value={line ?? 1}
              onChange={(event) => setLine(Number(event.currentTarget.value))}
            />
          </label>
        )}
        <button onClick={props.onClose}>Close</button>
      </div>
      {content === undefined && <p class="muted">Reading…</p>}
      {content && "reason" in content && <p class="empty muted">{content.reason}</p>}
      {content && "text" in content && (
        <>
          {!content.whole && (
            <p class="muted">
              The first {toBytes(MAX_BYTES)} are shown, {toCount(lines.length)} lines. Download has the rest.
            </p>
          )}
          <div class="file-text">
            <Lines
              count={lines.length}
              height={HEIGHT}
              focus={line === undefined ? undefined : line - 1}
              label={`Lines of ${toLine(entry.name, 80)}`}
              render={(index) => (
                <div
                  key={index}
                  role="listitem"
                  class={line === index + 1 ? "file-line selected" : "file-line"}
                >
                  <span class="file-number" aria-hidden="true">
                    {index + 1}
                  </span>
                  <code>{toVisible((lines[index] ?? "").slice(0, MAX_LINE))}</code>
                </div>
              )}
            />
          </div>
        </>
      )}
    </section>
  );
}

/** Reads the beginning of a file; bytes that are no text are not shown. */
async function readText(source: Source, path: string, signal: AbortSignal): Promise<Content> {
  const response = await source.read(path, signal);
  if (!response.body) return { text: "", whole: true };
  const reader = response.body.getReader();
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  let size = 0;
  let isWhole = true;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    chunks.push(value as Uint8Array<ArrayBuffer>);
    size += value.length;
    if (size > MAX_BYTES) {
      isWhole = false;
      void reader.cancel();
      break;
    }
  }
  const bytes = new Uint8Array(await new Blob(chunks).arrayBuffer());
  if (bytes.subarray(0, 8_000).includes(0)) return { reason: "This is no text. Download it to open it." };
  return { text: new TextDecoder().decode(bytes), whole: isWhole };
}

async function download(source: Source, entry: Entry): Promise<void> {
  try {
    const blob = await (await source.read(entry.path)).blob();
    // The bytes are a stranger's: the browser saves them and never opens them as a page of this origin.
    const url = URL.createObjectURL(new Blob([blob], { type: "application/octet-stream" }));
    const link = document.createElement("a");
    link.href = url;
    link.download = entry.name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
  } catch (error) {
    say(`The file could not be read. ${wordsOf(error)}`, "bad");
  }
}
