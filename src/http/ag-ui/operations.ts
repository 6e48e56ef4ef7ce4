import { AgUiCapabilities, AgUiFrame, AgUiThread } from "../../dialects/ag-ui/schemas.ts";
import { RunInput } from "../../dialects/ag-ui/parse.ts";
import { type Answer, defineOperations, done, events, json } from "../operation.ts";
import { ReadQuery, RunQuery } from "./view.ts";
import type { NamingRequest, OwnerRule } from "../nodes/at-owner.ts";
import { endsByLeaving, toNames } from "../nodes/owner-rules.ts";
import { findSession, SessionIndex } from "./thread.ts";

const AGENT = "/ag-ui/{agent}";
const LAST_EVENT_ID = { "Last-Event-ID": "the id of the last frame that was seen" };
const RUN_HEADER = { "x-run-id": "the run, percent-encoded" };

/** The session of a thread. */
const byThread: OwnerRule = async (request) => {
  const { threadId } = await request.body();
  return typeof threadId === "string" ? [await sessionOf(request, threadId)] : [];
};

/** The session of a run or thread in the query. */
const byRun: OwnerRule = async (request) => {
  const { query, catalog, tenant } = request;
  const [threadId, runId] = [query("threadId"), query("runId")];
  const runs = new SessionIndex("ag-ui.run", catalog).of(tenant);
  const ofRun = runId === undefined ? undefined : await runs.find(runId);
  return [...toNames(ofRun), ...(threadId === undefined ? [] : [await sessionOf(request, threadId)])];
};

/** Any node serves a reader, unless the run ends when the reader leaves. */
const byLeavingReader: OwnerRule = (request) => (endsByLeaving(request) ? byRun(request) : []);

function sessionOf({ catalog, tenant }: NamingRequest, threadId: string): Promise<string> {
  return findSession({ aliases: new SessionIndex("ag-ui.thread", catalog).of(tenant) }, threadId);
}

/** The same frames for clients that ask for lines. */
const lines: Answer = {
  status: 200,
  description: "The same, one frame on each line",
  mime: "application/x-ndjson",
  schema: AgUiFrame,
};

export const agUiOperations = defineOperations({
  agUiRun: {
    method: "POST",
    path: AGENT,
    // This scope suffices for answers. The handler demands a higher one for messages.
    scope: "answer",
    owner: byThread,
    tag: "ag-ui",
    summary: "Begins a run, or continues one: a client that lost its stream sends the same request again",
    query: RunQuery,
    headers: LAST_EVENT_ID,
    body: { kind: "json", schema: RunInput },
    answer: events("The events of the run, to its end", RUN_HEADER, AgUiFrame),
    otherAnswers: [lines],
    errors: [
      "invalid_request",
      "invalid_cursor",
      "unsupported_agent",
      "not_found",
      "session_busy",
      "too_large",
    ],
  },
  agUiRead: {
    method: "GET",
    path: AGENT,
    scope: "read",
    owner: byLeavingReader,
    tag: "ag-ui",
    summary: "A run from its start or from a frame on, or the messages of a thread",
    query: ReadQuery,
    headers: LAST_EVENT_ID,
    answer: json("The thread, if the request names no run and no position", AgUiThread),
    otherAnswers: [events("The events of the run or of the thread", RUN_HEADER, AgUiFrame), lines],
    errors: ["invalid_request", "invalid_cursor", "session_not_found", "not_found", "cursor_gone"],
  },
  agUiStop: {
    method: "DELETE",
    path: AGENT,
    scope: "control",
    owner: byRun,
    tag: "ag-ui",
    summary: "Ends the named run, or the live one of the thread",
    query: ReadQuery,
    answer: done("The run has ended"),
    errors: ["invalid_request", "session_not_found", "not_found"],
  },
  agUiCapabilities: {
    method: "GET",
    path: `${AGENT}/capabilities`,
    scope: "read",
    tag: "ag-ui",
    summary: "The capabilities of an agent",
    answer: json("The capabilities", AgUiCapabilities),
    errors: ["not_found"],
  },
});
