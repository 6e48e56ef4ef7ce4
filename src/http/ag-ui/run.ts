import type { Context } from "hono";
import { type ContentPart, isRecord, SluiceError } from "../../contract/index.ts";
import { agUi, type AgUiState, type AgUiView } from "../../dialects/ag-ui/index.ts";
import { toAnswers } from "../../dialects/ag-ui/answers.ts";
import {
  type Attached,
  ForwardedProps,
  newestPrompt,
  type RunInput,
  toCustomTools,
  toPrompt,
} from "../../dialects/ag-ui/parse.ts";
import { RUN_EVENT, type RunPayload, toPayload } from "../../dialects/ag-ui/state.ts";
import { parseWith } from "../../dialects/universal/index.ts";
import type { SessionRow } from "../../log/port.ts";
import type { Submission } from "../../sessions/inbox/submission.ts";
import type { Engine } from "../../sessions/port.ts";
import { demandScope } from "../access/demand.ts";
import type { AppEnv } from "../context.ts";
import { digestOf } from "../digest.ts";
import { readStateAt } from "../stream/cursor.ts";
import type { StreamFormat } from "../stream/sse.ts";
import { readRun, respondRun } from "./read.ts";
import { findRunStart, keyOf } from "./run-position.ts";
import { type AgUiServices, findSession, openThread, readRow } from "./thread.ts";
import { chooseFormat, type RunQuery, toView } from "./view.ts";

interface RunCall {
  readonly c: Context<AppEnv>;
  readonly agent: string;
  readonly query: RunQuery;
  readonly input: RunInput;
}

/** Begins a run, or continues one: a client that lost its stream sends the same request again. */
export async function postRun(services: AgUiServices, call: RunCall): Promise<Response> {
  const { c, input, query, agent } = call;
  const { threadId, runId } = input;
  const view = toView(query, input.protocolVersion);
  const seen = c.req.header("last-event-id");
  if (seen) return readRun(services, { c, query, view, agent, threadId, runId, seen });
  try {
    const begun = await services.inThread(threadId, () => begin(services, call));
    return await respondRun(services, {
      c,
      query,
      view: { ...view, thread: threadId },
      runId,
      start: begun.after,
      ...begun,
    });
  } catch (error) {
    if (!(error instanceof SluiceError) || !REPORTED_AS_RUN.has(error.code)) throw error;
    return toFailedRun(await chooseFormat(c), input, error);
  }
}

/** Errors that are reported as a failed run, as the request itself is right. */
const REPORTED_AS_RUN: ReadonlySet<string> = new Set(["agent_not_installed", "session_not_found"]);

async function begin(
  services: AgUiServices,
  { c, agent, input, query }: RunCall,
): Promise<{ row: SessionRow; after: number }> {
  const { engine, runs } = services;
  // Only an open question can be answered, so a new thread needs the scope of a message.
  if (!(await engine.log.find(await findSession(services, input.threadId)))) demandScope(c, "control");
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
  const submissions = await resolveSubmissions(services, row, { c, input, run, state });
  await runs.remember(input.runId, row.id);
  const { after } = await engine.submit(row.id, submissions, { via: agUi.id, key: keyOf(input.runId) });
  return { row: await readRow(engine, row.id), after };
}

async function resolveSubmissions(
  { engine }: AgUiServices,
  row: SessionRow,
  { c, input, run, state }: { c: Context<AppEnv>; input: RunInput; run: RunPayload; state: AgUiState },
): Promise<Submission[]> {
  const answers = toAnswers(input, state.asks, run);
  if (answers.length > 0) return [{ kind: "custom", name: RUN_EVENT, value: run }, ...answers];
  demandScope(c, "control");
  const open = Object.entries(state.asks);
  if (open.length > 0) {
    const pending = open.map(([id, { kind, prompt }]) => ({ id, kind, prompt }));
    throw new SluiceError("session_busy", "The thread waits for answers. Send them with `resume`.", {
      pending,
    });
  }
  if (state.turn !== null) {
    const runId = state.run?.id;
    const detail = "A run of this thread is live. Join it, stop it, or wait for its end.";
    throw new SluiceError("session_busy", detail, { runId });
  }
  const prompt = newestPrompt(input);
  if (!prompt) throw new SluiceError("invalid_request", "messages: the last message has to be a user's.");
  await updateTools(engine, row, input);
  const content = await writeAttachments(engine, row.id, toPrompt(prompt, input.context));
  if (content.length === 0)
    throw new SluiceError(
      "invalid_request",
      "messages: the last message is empty. Send text or an attachment.",
    );
  const payload = toPayload({ ...run, ...(prompt.id === undefined ? {} : { messageId: prompt.id }) });
  return [{ kind: "message", content, payload, delivery: "alone" }];
}

/** A client may send other tools with each run. */
async function updateTools(engine: Engine, row: SessionRow, input: RunInput): Promise<void> {
  const custom = toCustomTools(input);
  if (custom) await engine.update(row.id, { settings: { tools: { ...row.spec.tools, custom } } });
}

const UPLOADS = "/mnt/session/uploads";

/** Writes attachments into the sandbox, where the agent can read them. */
async function writeAttachments(
  engine: Engine,
  session: string,
  parts: readonly (ContentPart | Attached)[],
): Promise<ContentPart[]> {
  const written: ContentPart[] = [];
  for (const part of parts) {
    if (part.type !== "attached") {
      written.push(part);
      continue;
    }
    const extension = part.mime.split("/").at(-1)?.replaceAll(/\W+/g, "-") ?? "bin";
    const path = `${UPLOADS}/attachment-${digestOf(part.data).slice(0, 12)}.${extension}`;
    await (await engine.files(session)).write(path, Buffer.from(part.data, "base64"));
    written.push({ type: "file_ref", path, action: "read" });
  }
  return written;
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

/** The stream of a run that could not begin: it starts and fails. */
function toFailedRun(
  format: StreamFormat,
  { threadId, runId }: RunInput,
  { code, message }: SluiceError,
): Response {
  const timestamp = Date.now();
  const events = [
    { type: "RUN_STARTED", threadId, runId, timestamp },
    { type: "RUN_ERROR", message, code, metadata: { tanstack: { threadId, runId } }, timestamp },
  ];
  const text = events
    .map((event) => format.framing.frame({ data: JSON.stringify(event), id: null }, undefined))
    .join("");
  return new Response(Buffer.from(text, format.framing.encoding ?? "utf8"), { headers: format.headers });
}
