import type { Context } from "hono";
import { SluiceError } from "../../contract/index.ts";
import { agUi, type AgUiState, type AgUiView } from "../../dialects/ag-ui/index.ts";
import { toAnswers } from "../../dialects/ag-ui/answers.ts";
import { ForwardedProps, type RunInput } from "../../dialects/ag-ui/input.ts";
import { isRecord, RUN_EVENT, type RunPayload, toPayload } from "../../dialects/ag-ui/payload.ts";
import { newestPrompt, toPrompt } from "../../dialects/ag-ui/prompt.ts";
import { parseWith } from "../../dialects/universal/index.ts";
import type { SessionRow } from "../../log/port.ts";
import type { Submission } from "../../sessions/submission.ts";
import type { AppEnv } from "../env.ts";
import { readStateAt } from "../rewind.ts";
import { toFailedRun } from "./failure.ts";
import { chooseFormat } from "./format.ts";
import { type RunQuery, toView } from "./query.ts";
import { readRun, respondRun } from "./read.ts";
import { findRunStart, keyOf } from "./run-place.ts";
import type { AgUiServices } from "./services.ts";
import { openThread, placeParts, readRow, updateTools } from "./thread.ts";

export interface RunCall {
  readonly c: Context<AppEnv>;
  readonly agent: string;
  readonly query: RunQuery;
  readonly input: RunInput;
}

/** Begins a run, or goes on with one: a client that lost its stream sends the same request again. */
export async function postRun(services: AgUiServices, call: RunCall): Promise<Response> {
  const { c, input, query, agent } = call;
  const { threadId, runId } = input;
  const view = toView(query, input.protocolVersion);
  const seen = c.req.header("last-event-id");
  if (seen) return readRun(services, { c, query, view, agent, threadId, runId, seen });
  try {
    const begun = await services.threads.run(threadId, () => begin(services, call));
    return await respondRun(services, {
      c,
      query,
      view: { ...view, thread: threadId },
      runId,
      start: begun.after,
      ...begun,
    });
  } catch (error) {
    if (!(error instanceof SluiceError) || !TOLD.has(error.code)) throw error;
    return toFailedRun(await chooseFormat(c), { threadId, runId, view }, error);
  }
}

/** What a run could not begin for is told as its failure, where a client waits for a run and asked for nothing wrong. */
const TOLD: ReadonlySet<string> = new Set(["agent_not_installed", "session_not_found"]);

async function begin(
  services: AgUiServices,
  { agent, input, query }: RunCall,
): Promise<{ row: SessionRow; after: number }> {
  const { engine, runs } = services;
  const forwarded = parseWith(
    ForwardedProps,
    isRecord(input.forwardedProps) ? input.forwardedProps : {},
    "body",
  );
  const row = await openThread(services, agent, input, forwarded);
  const known = await findRunStart(engine.log, row, input.runId);
  if (known !== undefined) return { row, after: known };
  const state = await readStateAt(
    engine.log,
    { session: row.id, dialect: agUi, view: toView(query) },
    row.head,
  );
  const run = toRunPayload(input, query, toView(query, input.protocolVersion));
  const submissions = await toSubmissions(services, row, { input, run, state });
  await runs.remember(input.runId, row.id);
  const { after } = await engine.submit(row.id, submissions, { via: agUi.id, key: keyOf(input.runId) });
  return { row: await readRow(engine, row.id), after };
}

async function toSubmissions(
  { engine }: AgUiServices,
  row: SessionRow,
  { input, run, state }: { input: RunInput; run: RunPayload; state: AgUiState },
): Promise<Submission[]> {
  const answers = toAnswers(input, state.asks, run);
  if (answers.length > 0) return [{ kind: "custom", name: RUN_EVENT, value: run }, ...answers];
  const open = Object.entries(state.asks);
  if (open.length > 0) {
    const pending = open.map(([id, { kind, prompt }]) => ({ id, kind, prompt }));
    throw new SluiceError("session_busy", "The thread waits for answers. Send them with `resume`.", {
      pending,
    });
  }
  if (state.turn !== null) {
    const runId = state.run?.id;
    throw new SluiceError(
      "session_busy",
      "A run of this thread is live. Join it, stop it, or wait for its end.",
      { runId },
    );
  }
  const prompt = newestPrompt(input);
  if (!prompt) throw new SluiceError("invalid_request", "messages: the newest one has to be a user's.");
  await updateTools(engine, row, input);
  const content = await placeParts(engine, row.id, toPrompt(prompt, input.context));
  if (content.length === 0) throw new SluiceError("invalid_request", "messages: the newest one is empty.");
  const payload = toPayload({ ...run, ...(prompt.id === undefined ? {} : { messageId: prompt.id }) });
  return [{ kind: "message", content, payload, delivery: "alone" }];
}

function toRunPayload(
  { runId, parentRunId, state }: RunInput,
  query: RunQuery,
  { protocol }: AgUiView,
): RunPayload {
  const kept = isRecord(state) && Object.keys(state).length > 0 ? { state } : {};
  return {
    runId,
    ...(parentRunId ? { parentRunId } : {}),
    ...(protocol === undefined ? {} : { protocol }),
    ...kept,
    ...(query.cancelOnDisconnect === true ? { cancelOnDisconnect: true } : {}),
  };
}
