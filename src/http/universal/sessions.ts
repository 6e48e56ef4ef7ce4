import { z } from "zod";
import {
  CreateSession,
  SessionAt,
  SessionId,
  SessionInfo,
  ShownSpec,
  SluiceError,
  UpdateSession,
} from "../../contract/index.ts";
import { flag, parseWith, whole } from "../../dialects/universal/index.ts";
import { defineOperations, done, IDEMPOTENCY, idempotencyKeyOf, json, type Mount } from "../operation.ts";
import type { SessionChange } from "../../sessions/fold/change.ts";
import { MomentQuery } from "./inspection/outline.ts";
import { FilterQuery } from "./inspection/session-stream.ts";
import * as responses from "../../contract/responses.ts";
import { byFork, byPath } from "../nodes/owner-rules.ts";

const SessionQuery = z.object({
  cursor: z.string().optional().describe("`next` of the previous page"),
  limit: whole(1, 1000).default(100),
  ...FilterQuery.shape,
});

export const sessionOperations = defineOperations({
  listSessions: {
    method: "GET",
    path: "/v1/sessions",
    scope: "read",
    tag: "sessions",
    summary: "The sessions, newest first; a filtered page may be short, or empty, and have a next",
    query: SessionQuery,
    answer: json("A page of sessions", responses.SessionPage),
    errors: ["invalid_request", "invalid_cursor"],
  },
  createSession: {
    method: "POST",
    path: "/v1/sessions/{id}",
    scope: "control",
    owner: byFork,
    tag: "sessions",
    summary: "Creates a session under an id that the client chooses",
    headers: IDEMPOTENCY,
    body: { kind: "json", schema: CreateSession },
    answer: json("The created session", responses.CreatedSession),
    errors: [
      "invalid_request",
      "unsupported_agent",
      "mode_not_supported",
      "agent_not_installed",
      "session_already_exists",
      "idempotency_conflict",
    ],
  },
  getSession: {
    method: "GET",
    path: "/v1/sessions/{id}",
    scope: "read",
    tag: "sessions",
    summary: "The settings and the state of a session, now or after an event of its log",
    query: MomentQuery,
    answer: json("The session", z.union([SessionInfo, SessionAt])),
    errors: ["invalid_request", "session_not_found", "cursor_gone"],
  },
  getSpec: {
    method: "GET",
    path: "/v1/sessions/{id}/spec",
    scope: "read",
    tag: "sessions",
    summary: "The settings of a session as they are now; secret values are hidden (extension)",
    answer: json("The settings", ShownSpec),
    errors: ["session_not_found"],
  },
  updateSession: {
    method: "PATCH",
    path: "/v1/sessions/{id}",
    scope: "control",
    owner: byPath,
    tag: "sessions",
    summary: "Changes a session; settings of its agent hold from the next turn on, and need an idle session",
    body: { kind: "json", schema: UpdateSession },
    answer: json("The changed session", SessionInfo),
    errors: [
      "invalid_request",
      "mode_not_supported",
      "session_not_found",
      "session_ended",
      "session_busy",
      "too_large",
    ],
  },
  deleteSession: {
    method: "DELETE",
    path: "/v1/sessions/{id}",
    scope: "control",
    owner: byPath,
    tag: "sessions",
    summary: "Ends a session and removes its log and its sandbox",
    answer: done("The session is removed"),
    errors: ["session_not_found"],
  },
  interruptSession: {
    method: "POST",
    path: "/v1/sessions/{id}/interrupt",
    scope: "control",
    owner: byPath,
    tag: "sessions",
    summary: "Ends the running turn, or the running command if there is no turn; the session stays",
    answer: done("The turn or command has ended; neither header if nothing ran", {
      "sluice-turn-id": "the turn that was ended",
      "sluice-command-id": "the command that was ended",
    }),
    errors: ["session_not_found"],
  },
  terminateSession: {
    method: "POST",
    path: "/v1/sessions/{id}/terminate",
    scope: "control",
    owner: byPath,
    tag: "sessions",
    summary: "Ends the session and its whole process tree",
    query: z.object({ destroy: flag().optional().describe("removes the sandbox and its files too") }),
    answer: done("Every process has ended"),
    errors: ["session_not_found"],
  },
});

export function mountSessions(mount: Mount): void {
  mount(sessionOperations.listSessions, async ({ engine, c, query }) => c.json(await engine.list(query)));

  mount(sessionOperations.createSession, async ({ engine, c, body, param }) => {
    const id = parseWith(SessionId, param("id"), "path");
    if (id === "sse")
      throw new SluiceError("invalid_request", 'The id "sse" is the path of the live list. Choose another.');
    const { nativeSessionId } = await engine.create(id, body, { key: idempotencyKeyOf(c) });
    return c.json({ healthy: true, ...(nativeSessionId !== null && { nativeSessionId }) });
  });

  mount(sessionOperations.getSession, async ({ engine, c, query: { at }, param }) => {
    const id = param("id");
    return c.json(at === undefined ? await engine.info(id) : await engine.at(id, at));
  });

  mount(sessionOperations.getSpec, async ({ engine, c, param }) => c.json(await engine.spec(param("id"))));

  mount(sessionOperations.updateSession, async ({ engine, c, body, param }) =>
    c.json(await engine.update(param("id"), toChange(body))),
  );

  mount(sessionOperations.deleteSession, ({ engine, param }) => engine.remove(param("id")));

  mount(sessionOperations.interruptSession, async ({ engine, c, param }) => {
    const { turnId, commandId } = await engine.interrupt(param("id"));
    return c.body(null, 204, {
      ...(turnId !== undefined && { "sluice-turn-id": turnId }),
      ...(commandId !== undefined && { "sluice-command-id": commandId }),
    });
  });

  mount(sessionOperations.terminateSession, ({ engine, query, param }) =>
    engine.terminate(param("id"), { destroy: query.destroy ?? false }),
  );
}

function toChange({ title, metadata, ...settings }: UpdateSession): SessionChange {
  return {
    ...(title === undefined ? {} : { title }),
    ...(metadata === undefined ? {} : { metadata }),
    ...(Object.keys(settings).length === 0
      ? {}
      : { settings: settings as NonNullable<SessionChange["settings"]> }),
  };
}
