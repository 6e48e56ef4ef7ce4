import type { EventDraft } from "../src/contract/index.ts";
import { createSqliteLog } from "../src/log/index.ts";
import { Sealer } from "../src/log/seal.ts";
import { toSegments } from "../src/log/segment.ts";
import { openBareLog } from "./bare-insert.ts";
import { withFolder } from "./place.ts";

export interface AppendTask {
  readonly batch: number;
  readonly events: number;
  readonly rounds: number;
}

export interface AppendResult {
  /** Events a second through `append`, with nothing before it, and by the bare limit, round by round. */
  readonly appends: readonly number[];
  readonly limits: readonly number[];
}

/** What the log alone makes of the bare limit on this machine, in alternating rounds of one run. */
export async function measureAppends(task: AppendTask): Promise<AppendResult> {
  const batches = toBatches(task);
  const appends: number[] = [];
  const limits: number[] = [];
  // The first round warms up and is not counted.
  for (let round = 0; round <= task.rounds; round++) {
    const limit = await limitSeconds(batches);
    const append = await appendSeconds(batches);
    if (round === 0) continue;
    limits.push(task.events / limit);
    appends.push(task.events / append);
  }
  return { appends, limits };
}

function appendSeconds(batches: readonly EventDraft[][]): Promise<number> {
  return withFolder(async (folder) => {
    const log = createSqliteLog({ folder });
    await log.create({ id: "bench", spec: { agent: "scripted" }, owner: "bench", time: Date.now() });
    const begun = performance.now();
    for (const [index, events] of batches.entries()) {
      await log.append("bench", { epoch: 1, time: Date.now(), events, spool: { process: 1, offset: index } });
    }
    const seconds = (performance.now() - begun) / 1000;
    await log.close();
    return seconds;
  });
}

function limitSeconds(batches: readonly EventDraft[][]): Promise<number> {
  const sealer = new Sealer({ id: "bench", createdAt: 1 });
  let first = 1;
  const rows = batches.map((drafts) => {
    const texts = sealer.seal(drafts, { first, time: Date.now() });
    const segments = toSegments(drafts, texts, first);
    first += drafts.length;
    return segments;
  });
  const lines = batches.flat().map((draft) => draft.raw ?? "null");
  return withFolder(async (folder) => {
    const bare = await openBareLog(folder);
    const seconds = bare.insert(rows, lines);
    bare.close();
    return seconds;
  });
}

/** Deltas as a streaming CLI brings them: one native line each, a few words of text. */
function toBatches({ events, batch }: AppendTask): EventDraft[][] {
  const drafts = Array.from({ length: events }, (_, n) => toDraft(n));
  const batches: EventDraft[][] = [];
  for (let at = 0; at < drafts.length; at += batch) batches.push(drafts.slice(at, at + batch));
  return batches;
}

function toDraft(n: number): EventDraft {
  const delta = `some words of answer ${n}, and then "some" more\n`;
  return {
    type: "item.delta",
    source: "agent",
    turn_id: "turn_0mb1c2d3e4f5g6h7j8k9",
    native_session_id: "5f2b9a52-5ad3-4ff8-b2a5-7a1f5f1d4a51",
    data: { item_id: "itm_1_3", delta },
    raw: JSON.stringify({
      type: "stream_event",
      event: { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: delta } },
      session_id: "5f2b9a52-5ad3-4ff8-b2a5-7a1f5f1d4a51",
      parent_tool_use_id: null,
      uuid: `9c1e7f60-0000-4000-8000-${String(n).padStart(12, "0")}`,
    }),
  };
}
