import type { Properties } from "./events.ts";
import type { Page } from "./page.ts";
import type { Part } from "./parts.ts";

/** What is known of a compaction before it is done: why, and the words that stand for the conversation from now on. */
export function readSummary(page: Page, part: Part): undefined {
  const { compaction } = page.work;
  if (part.type === "compaction") {
    const trigger = part["overflow"] === true ? "overflow" : part["auto"] === true ? "auto" : "manual";
    page.setWork({ compaction: { ...compaction, trigger } });
    return;
  }
  const { text } = part;
  if (part.type !== "text" || typeof text !== "string" || text === "") return;
  page.setWork({ compaction: { trigger: "auto", ...compaction, summary: text } });
}

export function readCompaction(page: Page, { sessionID }: Properties): undefined {
  const place = page.placeOf(sessionID);
  if (!place) return;
  page.scribe.compacted({ ...page.work.compaction }, place);
  const { compaction: _, ...work } = page.work;
  page.set({ work });
}
