import type { AgUiInterrupt, AgUiView } from "../../dialects/ag-ui/index.ts";
import { toInterrupt } from "../../dialects/ag-ui/interrupt.ts";
import type { UiMessage } from "../../dialects/ag-ui/ui-messages.ts";
import { readTurnsBack } from "./history.ts";
import { type Page, readMessagePage } from "./message-page.ts";
import type { ReadQuery } from "./query.ts";
import type { AgUiServices } from "./services.ts";
import { findSession } from "./thread.ts";

export interface Hydration {
  readonly messages: readonly UiMessage[];
  readonly activeRun: { readonly runId: string } | null;
  readonly interrupts: { readonly runId: string; readonly pending: readonly AgUiInterrupt[] } | null;
  readonly page: Page;
}

/** What a page that is opened again paints. The run that is live is not in the messages: it is joined, from its beginning. */
export async function hydrate(
  services: AgUiServices,
  agent: string,
  { threadId, limit, before }: ReadQuery & { threadId: string },
): Promise<Hydration> {
  const { log } = services.engine;
  const row = await log.find(await findSession(services, threadId));
  if (row?.spec.agent !== agent)
    return { messages: [], activeRun: null, interrupts: null, page: { truncated: false } };
  const view: AgUiView = { agent: row.spec.agent, thread: threadId, inputs: true };
  const { value: last } = await readTurnsBack(log, row, view).next();
  const { run = null, asks = {} } = last?.state ?? {};
  const { messages, page } = await readMessagePage(log, row, view, { limit, before });
  if (run) return { messages, activeRun: { runId: run.id }, interrupts: null, page };
  const open = Object.entries(asks).flatMap(([id, ask]) =>
    ask.kind === "tool" ? [] : [{ id, ask: { ...ask, kind: ask.kind } }],
  );
  if (open.length === 0) return { messages, activeRun: null, interrupts: null, page };
  // What is asked is asked in the last turn, so its last run is the one that was interrupted.
  const finished = last?.told.findLast(({ type }) => type === "RUN_FINISHED");
  const runId = String(finished?.["runId"] ?? "");
  const pending = open.map(({ id, ask }) => toInterrupt(id, ask, runId));
  return { messages, activeRun: null, interrupts: { runId, pending }, page };
}
