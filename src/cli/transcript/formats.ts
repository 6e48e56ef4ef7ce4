import { FORMAT_NAMES as NAMES, FormatName, type SluiceEvent } from "../../contract/index.ts";
import { FORMATS, type Format } from "../../dialects/formats.ts";
import type { StoredEventText } from "../../dialects/port.ts";
import { badUsage } from "../terminal/failure.ts";
import type { Page } from "./pen.ts";
import { renderEvent } from "./render.ts";
import { initialTranscript } from "./state.ts";

/** Returns the text of the next event of one session. */
export type EventPrinter = (event: StoredEventText) => string;

/** The names of the formats, for help texts. */
export const FORMAT_LIST: string = NAMES.join(", ");

/**
 * Whether an event's text depends on earlier events, so that the log is read from its start. The transcript may start at
 * any event.
 */
export function needsEarlierEvents(format: string | undefined): boolean {
  return format !== undefined && format !== "universal";
}

/** The printer of `--as FORMAT`; without a format, the printer of the transcript. */
export function createPrint(format: string | undefined, page: Page): EventPrinter {
  if (format === undefined) return createTranscriptPrint(page);
  const name = FormatName.safeParse(format);
  if (name.success) return createFormatPrint(FORMATS[name.data]);
  throw badUsage(
    `There is no format "${format}". Formats: ${FORMAT_LIST}; without --as you get the transcript.`,
  );
}

function createFormatPrint({ dialect, printed }: Format): EventPrinter {
  let state = dialect.initial(printed);
  return (event) => {
    const projected = dialect.project(state, event);
    state = projected.state;
    return projected.frames.map(({ data }) => `${data}\n`).join("");
  };
}

function createTranscriptPrint(page: Page): EventPrinter {
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
