import { z } from "zod";
import { SluiceError } from "../../contract/index.ts";
import { toThreadId } from "../../dialects/anthropic/ids.ts";
import { refuse } from "../../dialects/anthropic/resources/refusal.ts";
import { STATUSES, toStatus, toThread } from "../../dialects/anthropic/session.ts";
import { readEventPage } from "./event-page.ts";
import { stream, StreamEvents, toPageResponse } from "./events.ts";
import * as params from "./query.ts";
import type { Route } from "./route.ts";
import type { AnthropicServices } from "./services.ts";
import { readRecord, type SessionRecord } from "./session-record.ts";

const ListThreads = z.object({
  statuses: params.listOf(z.enum(STATUSES)),
  limit: params.limitOf(20),
  page: params.page,
});
const ListEvents = z.object({ limit: params.limitOf(1000), page: params.page });

/** A session has one thread, and all that it tells is that thread's. */
export function mountThreads(route: Route, services: AnthropicServices): void {
  const read = async (owner: string, param: (name: string) => string): Promise<SessionRecord> => {
    const record = await readRecord(services, owner, param("id"));
    if (param("thread") === toThreadId(record.session)) return record;
    throw new SluiceError("not_found", `There is no thread ${param("thread")} in this session.`);
  };

  route("GET", "/sessions/:id/threads", { query: ListThreads }, async ({ owner, query, param }) => {
    const { body, info } = await readRecord(services, owner, param("id"));
    const isShown = query.statuses === undefined || query.statuses.includes(toStatus(info));
    return { data: isShown ? [toThread(body, info)] : [], next_page: null };
  });

  route("GET", "/sessions/:id/threads/:thread", {}, async ({ owner, param }) => {
    const { body, info } = await read(owner, param);
    return toThread(body, info);
  });

  route("POST", "/sessions/:id/threads/:thread/archive", {}, async ({ owner, param }) => {
    await read(owner, param);
    throw refuse("The primary thread cannot be archived; archive its session.");
  });

  route(
    "GET",
    "/sessions/:id/threads/:thread/events",
    { query: ListEvents },
    async ({ owner, query, param }) => {
      const { session } = await read(owner, param);
      const request = { list: `thread ${session}`, order: "asc", ...query } as const;
      return toPageResponse(await readEventPage(services.engine, session, request));
    },
  );

  route(
    "GET",
    "/sessions/:id/threads/:thread/stream",
    { query: StreamEvents },
    async ({ c, owner, query, param }) => stream(services, { c, record: await read(owner, param), query }),
  );
}
