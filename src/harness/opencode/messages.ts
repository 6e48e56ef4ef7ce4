import { isRecord } from "../rpc.ts";
import { own } from "../transcript.ts";
import { endIfIdle, recover } from "./ends.ts";
import type { Properties } from "./events.ts";
import { toEventError, toNativeError } from "./failure.ts";
import type { Page } from "./page.ts";
import { tellSession } from "./sessions.ts";
import { requestAbort } from "./encode.ts";

/** A message began, changed or is complete. */
export function readMessage(page: Page, { info }: Properties): string | undefined {
  if (!isRecord(info) || typeof info["id"] !== "string") return "a message without an id";
  const place = page.placeOf(info["sessionID"]);
  if (!place || page.state.past.includes(info["id"])) return undefined;
  const id = info["id"];
  tellSession(page);
  if (info["role"] === "user") return readUserMessage(page, id, info);
  if (!own(page.work.messages, id) && !begin(page, id, info)) return undefined;
  if (isComplete(info)) complete(page, id, info);
  return undefined;
}

/** The user's words are known; that they have arrived is not. */
function readUserMessage(page: Page, id: string, info: Properties): undefined {
  if (!page.isMain(info["sessionID"])) return;
  const { model } = info;
  if (isRecord(model) && typeof model["providerID"] === "string" && typeof model["modelID"] === "string") {
    page.set({ model: { providerID: model["providerID"], modelID: model["modelID"] } });
  }
  const { turn } = page.state;
  page.set({ past: [...page.state.past, id] });
  if (turn) page.setTurn({ awaited: Math.max(0, turn.awaited - 1), hasBegun: true });
}

function begin(page: Page, id: string, info: Properties): boolean {
  const { turn } = page.state;
  // What was complete before the turn is old news.
  if (!turn && isComplete(info)) return false;
  const session = String(info["sessionID"]);
  const model = `${String(info["providerID"])}/${String(info["modelID"])}`;
  const isMain = page.isMain(session);
  if (isMain) recover(page);
  const isSummary = info["summary"] === true || info["mode"] === "compaction";
  page.setMessage(id, { session, request: "open", model, ...(isSummary ? { isSummary } : {}) });
  page.scribe.startModel(id, { model, ...page.placeOf(session) });
  // The abort came before there was anything to abort.
  if (isMain && turn?.isInterrupted === true) page.replies.push(requestAbort(session));
  return true;
}

function complete(page: Page, id: string, info: Properties): void {
  const message = own(page.work.messages, id);
  if (!message || message.isComplete) return;
  const failure = toNativeError(info["error"]);
  const isMain = page.isMain(message.session);
  // An error that the session outlives is told of the session only.
  const cause = failure ?? (isMain ? page.state.turn?.failure : undefined);
  page.scribe.endModel(id, { error: cause && toEventError(cause) });
  page.setMessage(id, { ...message, request: "ended", isComplete: true });
  if (!isMain) return;
  const finish = typeof info["finish"] === "string" ? info["finish"] : undefined;
  page.setTurn({
    ...(finish === undefined ? {} : { finish }),
    ...(failure === undefined ? {} : { failure }),
  });
  endIfIdle(page);
}

function isComplete({ time }: Properties): boolean {
  return isRecord(time) && typeof time["completed"] === "number";
}
