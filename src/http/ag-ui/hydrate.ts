import { agUi, type AgUiInterrupt } from "../../dialects/ag-ui/index.ts";
import { toInterrupt } from "../../dialects/ag-ui/interrupt.ts";
import { toMessages } from "../../dialects/ag-ui/messages.ts";
import { toUiMessages, type UiMessage } from "../../dialects/ag-ui/ui-messages.ts";
import { readStateAt } from "../rewind.ts";
import { readTold, type ToldEvent } from "./history.ts";
import type { AgUiServices } from "./services.ts";

export interface Hydration {
  readonly messages: readonly UiMessage[];
  readonly activeRun: { readonly runId: string } | null;
  readonly interrupts: { readonly runId: string; readonly pending: readonly AgUiInterrupt[] } | null;
}

/** What a page that is opened again paints. The run that is live is not in the messages: it is joined, from its beginning. */
export async function hydrate({ engine }: AgUiServices, agent: string, threadId: string): Promise<Hydration> {
  const row = await engine.log.find(threadId);
  if (row?.spec.agent !== agent) return { messages: [], activeRun: null, interrupts: null };
  const view = { agent: row.spec.agent, thread: threadId, inputs: true };
  const state = await readStateAt(engine.log, { session: row.id, dialect: agUi, view }, row.head);
  const told = await readTold(engine.log, row, view);
  const last = told.findLast(({ type }) => type === "RUN_FINISHED");
  const runId = String(last?.["runId"] ?? "");
  const pending = state.run
    ? []
    : Object.entries(state.asks).flatMap(([id, ask]) =>
        ask.kind === "tool" ? [] : [toInterrupt(id, { ...ask, kind: ask.kind }, runId)],
      );
  return {
    messages: toUiMessages(toMessages(state.run ? settled(told) : told)),
    activeRun: state.run ? { runId: state.run.id } : null,
    interrupts: pending.length === 0 ? null : { runId, pending },
  };
}

/** All but the live run's own words; what the user said to begin it is history. */
function settled(told: readonly ToldEvent[]): ToldEvent[] {
  const begun = told.findLastIndex(({ type }) => type === "RUN_STARTED");
  const asked = new Set(
    told.flatMap(({ type, role, messageId }) =>
      type === "TEXT_MESSAGE_START" && role === "user" ? [messageId] : [],
    ),
  );
  return told.filter(
    ({ messageId }, index) => index < begun || (messageId !== undefined && asked.has(messageId)),
  );
}
