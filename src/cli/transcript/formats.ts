import type { SluiceEvent } from "../../contract/index.ts";
import { agUi } from "../../dialects/ag-ui/index.ts";
import { anthropic } from "../../dialects/anthropic/project.ts";
import { ndjson } from "../../dialects/ndjson/index.ts";
import type { Dialect, StoredEventText } from "../../dialects/port.ts";
import { content } from "../../dialects/sdk/index.ts";
import { badUsage } from "../terminal/failure.ts";
import type { Page } from "./pen.ts";
import { renderEvent } from "./render.ts";
import { initialTranscript } from "./state.ts";

/** Prints the events of one session in order. */
export type Print = (event: StoredEventText) => string;

const FORMATS: Readonly<Record<string, () => Print>> = {
  // The log's own text is the universal event.
  universal: () => (event) => `${event.body}\n`,
  // The list view has each event once, when it is processed.
  anthropic: () => createDialectPrint(anthropic, { list: true }),
  "ag-ui": () => createDialectPrint(agUi, {}),
  ndjson: () => createDialectPrint(ndjson, {}),
  content: () => createDialectPrint(content, { only: "content" }),
  lifecycle: () => createDialectPrint(content, { only: "lifecycle" }),
};

/** The names of the formats, for help texts. */
export const FORMAT_NAMES: string = Object.keys(FORMATS).join(", ");

/** Whether an event's text depends on earlier events, so that the log is read from its start. */
export function needsEarlierEvents(format: string | undefined): boolean {
  return format !== undefined && format !== "universal";
}

/** The printer of `--as FORMAT`; without a format, the printer of the transcript. */
export function createPrint(format: string | undefined, page: Page): Print {
  if (format === undefined) return createTranscriptPrint(page);
  const create = Object.hasOwn(FORMATS, format) ? FORMATS[format] : undefined;
  if (create) return create();
  throw badUsage(
    `There is no format "${format}". Formats: ${Object.keys(FORMATS).join(", ")}; without --as you get the transcript.`,
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

/** `--json` means `--as universal`. */
export function formatOf(options: { as?: string; json?: boolean }): string | undefined {
  return options.as ?? (options.json ? "universal" : undefined);
}
