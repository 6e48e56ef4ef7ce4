import { SluiceError } from "../../contract/index.ts";
import type { AgUiView } from "../../dialects/ag-ui/index.ts";
import { toUiMessages, type UiMessage } from "../../dialects/ag-ui/ui-messages.ts";
import type { EventLog, SessionRow } from "../../log/port.ts";
import { assertCursor } from "../cursor.ts";
import { readTurnsBack, type ToldEvent } from "./history.ts";

/** Whether there are older messages, and where they begin: TanStack's `page`. */
export type Page = { readonly truncated: false } | { readonly truncated: true; readonly cursor: string };

export interface MessagePage {
  readonly messages: readonly UiMessage[];
  readonly page: Page;
}

/** The last messages before a place, all of them where no limit is given. Costs the turns that they are of. */
export async function readMessagePage(
  log: EventLog,
  row: SessionRow,
  view: AgUiView,
  { limit = Number.POSITIVE_INFINITY, before }: { limit?: number | undefined; before?: string | undefined },
): Promise<MessagePage> {
  const place = before === undefined ? undefined : parsePlace(before);
  if (place) assertCursor(row, place.through);
  const turns: UiMessage[][] = [];
  let room = limit;
  let left = place?.count;
  for await (const { through, told } of readTurnsBack(log, row, view, place?.through)) {
    const messages = toUiMessages(settled(told)).slice(0, left);
    left = undefined;
    if (messages.length > room) {
      const count = messages.length - room;
      turns.unshift(messages.slice(count));
      return { messages: turns.flat(), page: { truncated: true, cursor: `${through}.${count}` } };
    }
    turns.unshift(messages);
    room -= messages.length;
  }
  return { messages: turns.flat(), page: { truncated: false } };
}

/** The messages of one turn, read up to here, of which so many are older than the page. */
function parsePlace(cursor: string): { through: number; count: number } {
  const [, through, count] = /^(\d{1,15})\.(\d{1,9})$/.exec(cursor) ?? [];
  if (through === undefined)
    throw new SluiceError("invalid_cursor", `${JSON.stringify(cursor.slice(0, 80))} is no cursor of a page.`);
  return { through: Number(through), count: Number(count) };
}

/** All but the words of a run without its end, which is joined; what the user said to begin it is history. */
function settled(told: readonly ToldEvent[]): readonly ToldEvent[] {
  const begun = told.findLastIndex(({ type }) => type === "RUN_STARTED");
  const isOver = told.slice(begun).some(({ type }) => type === "RUN_FINISHED" || type === "RUN_ERROR");
  if (begun === -1 || isOver) return told;
  const asked = new Set(
    told.flatMap(({ type, role, messageId }) =>
      type === "TEXT_MESSAGE_START" && role === "user" ? [messageId] : [],
    ),
  );
  return told.filter(
    ({ messageId }, index) => index < begun || (messageId !== undefined && asked.has(messageId)),
  );
}
