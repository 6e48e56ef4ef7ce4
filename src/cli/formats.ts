import type { SluiceEvent } from "../contract/index.ts";
import { agUi } from "../dialects/ag-ui/index.ts";
import { anthropic } from "../dialects/anthropic/dialect.ts";
import { content } from "../dialects/content/index.ts";
import { ndjson } from "../dialects/ndjson/index.ts";
import type { Dialect } from "../dialects/port.ts";
import type { StoredEventText } from "../dialects/stored.ts";
import { CliFailure, EXIT } from "./failure.ts";
import { renderEvent } from "./transcript.ts";
import type { Page } from "./transcript/pen.ts";
import { initialTranscript } from "./transcript/state.ts";

/** Turns the events of one session into what is printed, one after the other. */
export type Print = (event: StoredEventText) => string;

const FORMATS: Readonly<Record<string, () => Print>> = {
  // The log's own text is the universal event.
  universal: () => (event) => `${event.body}\n`,
  // As a list tells it: each event once, where it was processed.
  anthropic: () => createDialectPrint(anthropic, { list: true }),
  "ag-ui": () => createDialectPrint(agUi, {}),
  ndjson: () => createDialectPrint(ndjson, {}),
  content: () => createDialectPrint(content, { only: "content" }),
  lifecycle: () => createDialectPrint(content, { only: "lifecycle" }),
};

/** For people. */
export const FORMAT_NAMES: string = Object.keys(FORMATS).join(", ");

/** A line of these may need what was said before it. */
export function remembers(format: string | undefined): boolean {
  return format !== undefined && format !== "universal";
}

/** `--as FORMAT`; without one, the transcript that people read. */
export function createPrint(format: string | undefined, page: Page): Print {
  if (format === undefined) return createTranscriptPrint(page);
  const create = Object.hasOwn(FORMATS, format) ? FORMATS[format] : undefined;
  if (create) return create();
  throw new CliFailure(
    `There is no format "${format}". Formats: ${Object.keys(FORMATS).join(", ")}; without --as you get the transcript.`,
    EXIT.usage,
  );
}

function createDialectPrint<State, View>(dialect: Dialect<State, View>, view: View): Print {
  let state = dialect.initial(view);
  return (event) => {
    const projected = dialect.project(state, event);
    state = projected.state;
    return projected.frames.map(({ data }) => `${data}\n`).join("");
  };
}

function createTranscriptPrint(page: Page): Print {
  let state = initialTranscript(page);
  return (stored) => {
    const rendered = renderEvent(state, JSON.parse(stored.body) as SluiceEvent);
    state = rendered.state;
    return rendered.text;
  };
}

/** `--json` is short for the universal events. */
export function formatOf(options: { as?: string; json?: boolean }): string | undefined {
  return options.as ?? (options.json ? "universal" : undefined);
}
