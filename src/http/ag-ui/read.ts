import type { Context } from "hono";
import { SluiceError } from "../../contract/index.ts";
import { agUi, type AgUiView, parseFrameId } from "../../dialects/ag-ui/index.ts";
import type { SessionRow } from "../../log/port.ts";
import { readSession } from "../cursor.ts";
import type { AppEnv } from "../env.ts";
import { readStateAt } from "../rewind.ts";
import { chooseFormat, withPrelude } from "./format.ts";
import { readPast } from "./history.ts";
import { toPrelude } from "./prelude.ts";
import type { RunQuery } from "./query.ts";
import { findPlace, findRun, isCancelledByLeaving } from "./run-place.ts";
import type { AgUiServices } from "./services.ts";
import { leaveRun } from "./stop.ts";
import { readThreadRow } from "./thread.ts";

interface Reading {
  readonly c: Context<AppEnv>;
  readonly query: RunQuery & { readonly follow?: boolean | undefined };
  readonly view: AgUiView;
}

/** A run from its beginning, from behind what was seen of it, or from now on. */
export async function readRun(
  services: AgUiServices,
  reading: Reading & { agent: string; threadId?: string | undefined; runId: string; seen: string },
): Promise<Response> {
  const { c, query, runId, seen, threadId } = reading;
  const found = await findRun(services, reading);
  if (!found) throw new SluiceError("not_found", `There is no run ${runId}.`, { runId });
  const { row, start } = found;
  const view = { ...reading.view, thread: threadId ?? row.id };
  if (seen === "now") return joinRun(services, { c, query, view, runId, row });
  const behind = seen === "-1" ? undefined : parseFrameId(seen);
  if (seen !== "-1" && !behind)
    throw new SluiceError("invalid_cursor", `${JSON.stringify(seen.slice(0, 80))} is no id of a frame.`);
  const whole = { ...view, agent: row.spec.agent, run: runId };
  const place = await findPlace(services.engine.log, row, { start, view: whole, seen: behind });
  return respondRun(services, { c, query, runId, row, start, ...place });
}

export async function respondRun(
  services: AgUiServices,
  run: Reading & { runId: string; row: SessionRow; start: number; after: number; isOver?: boolean },
): Promise<Response> {
  const { engine, streams } = services;
  const { c, query, row, runId, start, after } = run;
  const { until } = await readSession(engine, row.id);
  const end = run.isOver ? after : query.follow === false ? row.head : until;
  // A mere observer ends nothing: the run has to be of that kind, and the reader its client.
  const cancels =
    query.cancelOnDisconnect === true && (await isCancelledByLeaving(engine.log, row, { runId, start }));
  return streams.respond(c, {
    session: row.id,
    ordinal: row.ordinal,
    dialect: agUi,
    view: { ...run.view, agent: row.spec.agent, run: runId },
    after: Math.max(after, row.floor),
    ...(end === undefined ? {} : { until: end }),
    format: await chooseFormat(c),
    headers: { "x-run-id": encodeURIComponent(runId) },
    ...(cancels && {
      onOpen: () => (why) => {
        if (why === "gone") void leaveRun(services, row.id, runId);
      },
    }),
  });
}

/** All runs of a thread, one behind the other, up to the end of the one that is live. */
export async function readThread(
  services: AgUiServices,
  { c, view, agent, threadId, seen }: Reading & { agent: string; threadId: string; seen: string },
): Promise<Response> {
  const { engine, streams } = services;
  const row = await readThreadRow(services, agent, threadId);
  const whole = { ...view, agent: row.spec.agent, thread: threadId, inputs: true };
  const state = await readStateAt(engine.log, { session: row.id, dialect: agUi, view: whole }, row.head);
  const place = seen === "-1" ? { sequence: row.floor } : parseFrameId(seen);
  if (!place)
    throw new SluiceError("invalid_cursor", `${JSON.stringify(seen.slice(0, 80))} is no id of a frame.`);
  const { sequence, index } = place;
  return streams.respond(c, {
    session: row.id,
    ordinal: row.ordinal,
    dialect: agUi,
    view: {
      ...whole,
      ...(state.run ? { until: row.head } : {}),
      ...(index === undefined ? {} : { behind: { sequence, index } }),
    },
    after: index === undefined ? sequence : sequence - 1,
    ...(state.run ? {} : { until: row.head }),
    format: await chooseFormat(c),
  });
}

/** From the head on, behind what opens all that is open there. */
async function joinRun(
  { engine, streams }: AgUiServices,
  { c, view, runId, row }: Reading & { runId: string; row: SessionRow },
): Promise<Response> {
  // The messages that it is given are all that it has, so what it said itself is told as well.
  const whole = { ...view, agent: row.spec.agent, run: runId, inputs: true };
  const state = await readStateAt(engine.log, { session: row.id, dialect: agUi, view: whole }, row.head);
  const past = await readPast(engine.log, row, whole);
  const format = await chooseFormat(c);
  const isLive = state.run?.id === runId;
  return streams.respond(c, {
    session: row.id,
    ordinal: row.ordinal,
    dialect: agUi,
    view: whole,
    after: row.head,
    ...(isLive ? {} : { until: row.head }),
    format: isLive ? withPrelude(format, toPrelude(state, past, row.id)) : format,
  });
}
