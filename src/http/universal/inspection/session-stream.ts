import { z } from "zod";
import { SESSION_FRAMES, StatusFilter } from "../../../contract/index.ts";
import { listOf } from "../../../dialects/universal/index.ts";
import { SessionGuard } from "../../access/session-guard.ts";
import { defineOperations, events, type Mount } from "../../operation.ts";
import type { Services } from "../../services.ts";
import { ListReader, SessionBoard } from "../../stream/session-board.ts";

/** Narrows a list of sessions. */
export const FilterQuery = z.object({
  status: listOf(StatusFilter.options).optional().describe("repeated or separated by commas"),
  agent: z.string().optional(),
  text: z.string().min(1).optional().describe("a part of the id, the title or the directory, in any case"),
});

const frames = Object.entries(SESSION_FRAMES).map(([name, { description }]) => `${name}: ${description}`);

export const sessionStreamOperations = defineOperations({
  streamSessions: {
    method: "GET",
    path: "/v1/sessions/sse",
    scope: "read",
    tag: "sessions",
    summary:
      "The sessions, then their changes, live; every connection begins with the whole list (extension)",
    query: FilterQuery,
    answer: events(
      `Events by name. ${frames.join("; ")}`,
      undefined,
      z.union([SESSION_FRAMES.session, SESSION_FRAMES.removed, SESSION_FRAMES.ready]),
    ),
    errors: ["invalid_request"],
  },
});

export function mountSessionStream(mount: Mount, { engine, catalog, streams, logger }: Services): void {
  const board = new SessionBoard(engine, logger);
  mount(sessionStreamOperations.streamSessions, ({ c, query }) => {
    const access = c.get("access");
    const guard = new SessionGuard(engine.log, catalog, access);
    const isOwn = access.isOperator
      ? () => true
      : (row: Parameters<SessionGuard["isOwn"]>[0]) => guard.isOwn(row);
    const reader = new ListReader(board, { ...query, isOwn });
    return streams.respondWith(c, (sink) => reader.pump(sink));
  });
}
