import type { ContentPart, Usage } from "../../contract/index.ts";
import { isRecord } from "../rpc.ts";
import type { Place } from "../pen.ts";
import { own, type TextKind } from "../transcript.ts";
import { readSummary } from "./compaction.ts";
import type { Properties } from "./events.ts";
import type { Page } from "./page.ts";
import type { Message } from "./state.ts";
import { readTool } from "./tools.ts";

/** A part of a message, whole as it is now. */
export interface Part extends Properties {
  readonly id: string;
  readonly messageID: string;
  readonly type: string;
}

/** The hot path: no copy of anything but the text. */
export function readDelta(
  page: Page,
  { sessionID, messageID, partID, field, delta }: Properties,
): string | undefined {
  if (typeof partID !== "string" || typeof delta !== "string") return "a delta of no part";
  if (own(page.work.torn, partID) || field !== "text") return undefined;
  if (page.scribe.delta(partID, delta)) return undefined;
  const message = typeof messageID === "string" ? own(page.work.messages, messageID) : undefined;
  const isForeign = !message || message.isSummary || !page.placeOf(sessionID) || own(page.work.done, partID);
  return isForeign ? undefined : "a delta of a part that has not started";
}

export function readPart(page: Page, { part }: Properties): string | undefined {
  if (!isPart(part)) return "a part without an id";
  if (part.type === "compaction") return readSummary(page, part);
  const message = own(page.work.messages, part.messageID);
  // A user's message, or one of an earlier turn.
  if (!message) return undefined;
  const place = page.placeOf(message.session) ?? {};
  switch (part.type) {
    case "text":
    case "reasoning":
      return message.isSummary
        ? readSummary(page, part)
        : readText(page, part, { kind: part.type, ...place });
    case "tool":
      return own(page.work.done, part.id) ? undefined : readTool(page, part, place);
    case "step-finish":
      return endRequest(page, part, message);
    case "file":
      return readFile(page, part, place);
    default:
      return undefined;
  }
}

function readText(page: Page, part: Part, options: Place & { kind: TextKind }): undefined {
  const { id, text, time } = part;
  if (typeof text !== "string" || own(page.work.done, id)) return;
  const hasEnded = !isRecord(time) || typeof time["end"] === "number";
  page.scribe.startText(id, options);
  if (!hasEnded) return tellRest(page, id, text);
  const shown = own(page.scribe.transcript.texts, id)?.text ?? "";
  // The server cuts white space off the end; what the model said stays as it was said.
  page.scribe.endText(id, shown.startsWith(text) ? undefined : text);
  markDone(page, id);
}

/** A text that is longer than what was told of it. */
function tellRest(page: Page, id: string, text: string): undefined {
  const open = own(page.scribe.transcript.texts, id);
  if (!open || open.replay !== undefined || !text.startsWith(open.text)) return;
  page.scribe.delta(id, text.slice(open.text.length));
}

function endRequest(page: Page, part: Part, message: Message): undefined {
  if (page.scribe.endModel(part.messageID, { usage: toUsage(part) })) {
    page.setMessage(part.messageID, { ...message, request: "ended" });
  }
}

/** OpenCode counts what came from a cache and what was thought apart from the rest, as we do. */
export function toUsage({ tokens, cost }: Properties): Usage | undefined {
  if (!isRecord(tokens)) return undefined;
  const cache = isRecord(tokens["cache"]) ? tokens["cache"] : {};
  return {
    ...count("input_tokens", tokens["input"]),
    ...count("output_tokens", tokens["output"]),
    ...count("reasoning_tokens", tokens["reasoning"]),
    ...count("cache_read_tokens", cache["read"]),
    ...count("cache_write_tokens", cache["write"]),
    // A model whose price it does not know costs it nothing.
    ...(typeof cost === "number" && cost > 0 ? { cost_usd: cost } : {}),
  };
}

function count(name: keyof Usage, value: unknown): Usage {
  return typeof value === "number" && value >= 0 ? { [name]: Math.round(value) } : {};
}

function readFile(page: Page, part: Part, place: Place): undefined {
  const image = toImage(part);
  if (!image || own(page.work.done, part.id)) return;
  page.scribe.whole(part.id, { kind: "message", role: "assistant", content: [image] }, place);
  markDone(page, part.id);
}

export function toImage({ mime, url }: Properties): ContentPart | undefined {
  if (typeof mime !== "string" || !mime.startsWith("image/") || typeof url !== "string") return undefined;
  return { type: "image", path: url, mime };
}

export function markDone(page: Page, id: string): void {
  page.setWork({ done: { ...page.work.done, [id]: true } });
}

function isPart(part: unknown): part is Part {
  if (!isRecord(part)) return false;
  return (
    typeof part["id"] === "string" &&
    typeof part["messageID"] === "string" &&
    typeof part["type"] === "string"
  );
}
