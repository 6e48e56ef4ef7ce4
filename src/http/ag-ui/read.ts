import type { Context } from "hono";
import { SluiceError } from "../../contract/index.ts";
import { agUi, type AgUiView, parseFrameId } from "../../dialects/ag-ui/index.ts";
import type { SessionRow } from "../../log/port.ts";
import { readSession } from "../cursor.ts";
import type { AppEnv } from "../env.ts";
import { readStateAt } from "../rewind.ts";
import { chooseFormat, withPrelude } from "./format.ts";
import { readTold } from "./history.ts";
import { toPrelude } from "./prelude.ts";
import type { RunQuery } from "./query.ts";
import { findPlace, findRunStart } from "./run-place.ts";
import type { AgUiServices } from "./services.ts";
import { readRow, readThreadRow } from "./thread.ts";

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
  const session = (await services.runs.find(runId)) ?? threadId ?? (await findByTurn(services, runId));
  const found = session === undefined ? undefined : await services.engine.log.find(session);
  const row = found?.spec.agent === reading.agent ? found : undefined;
  const start = row && (await findRunStart(services.engine.log, row, runId));
  if (!row || start === undefined) throw new SluiceError("not_found", `There is no run ${runId}.`, { runId });
  const view = { ...reading.view, thread: threadId ?? row.id };
  if (seen === "now") return joinRun(services, { c, query, view, runId, row });
  const behind = seen === "-1" ? undefined : parseFrameId(seen);
  if (seen !== "-1" && !behind)
    throw new SluiceError("invalid_cursor", `${JSON.stringify(seen.slice(0, 80))} is no id of a frame.`);
  const whole = { ...view, agent: row.spec.agent, run: runId };
  const place = await findPlace(services.engine.log, row, { start, view: whole, seen: behind });
  return respondRun(services, { c, query, runId, row, ...place });
}

export async function respondRun(
  { engine, streams }: AgUiServices,
  run: Reading & { runId: string; row: SessionRow; after: number; isOver?: boolean },
): Promise<Response> {
  const { c, query, row, runId, after } = run;
  const { until } = await readSession(engine, row.id);
  const end = run.isOver ? after : query.follow === false ? row.head : until;
  return streams.respond(c, {
    session: row.id,
    ordinal: row.ordinal,
    dialect: agUi,
    view: { ...run.view, agent: row.spec.agent, run: runId },
    after: Math.max(after, row.floor),
    ...(end === undefined ? {} : { until: end }),
    format: await chooseFormat(c),
    headers: { "x-run-id": encodeURIComponent(runId) },
    ...(query.cancelOnDisconnect === true
      ? {
          onClose: (why) => {
            if (why === "gone") void stopRun(engine, row.id, runId).catch(() => {});
          },
        }
      : {}),
  });
}

/** All runs of a thread, one behind the other, up to the end of the one that is live. */
export async function readThread(
  { engine, streams }: AgUiServices,
  { c, view, agent, threadId, seen }: Reading & { agent: string; threadId: string; seen: string },
): Promise<Response> {
  const row = await readThreadRow(engine, agent, threadId);
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

/** Ends the run where it is the one that is live; nothing happens to any other. */
export async function stopRun(
  engine: AgUiServices["engine"],
  session: string,
  runId: string | undefined,
): Promise<boolean> {
  const row = await readRow(engine, session);
  const view = { agent: row.spec.agent };
  const { turn, run } = await readStateAt(engine.log, { session, dialect: agUi, view }, row.head);
  if (turn === null || (runId !== undefined && run !== null && run.id !== runId)) return false;
  await engine.interrupt(session, { by: "ag-ui", turnId: turn, stop: true });
  return true;
}

/** From the head on, behind what opens all that is open there. */
async function joinRun(
  { engine, streams }: AgUiServices,
  { c, view, runId, row }: Reading & { runId: string; row: SessionRow },
): Promise<Response> {
  const whole = { ...view, agent: row.spec.agent, run: runId };
  const state = await readStateAt(engine.log, { session: row.id, dialect: agUi, view: whole }, row.head);
  const told = await readTold(engine.log, row, { ...whole, inputs: true });
  const format = await chooseFormat(c);
  const isLive = state.run?.id === runId;
  return streams.respond(c, {
    session: row.id,
    ordinal: row.ordinal,
    dialect: agUi,
    view: whole,
    after: row.head,
    ...(isLive ? {} : { until: row.head }),
    format: isLive ? withPrelude(format, toPrelude(state, told, row.id)) : format,
  });
}

/** A run that no client of this dialect began is called by its turn, and found by who has it. */
async function findByTurn({ engine }: AgUiServices, runId: string): Promise<string | undefined> {
  if (!runId.startsWith("turn_")) return undefined;
  const { sessions } = await engine.list({ limit: 100 });
  for (const { sessionId } of sessions) {
    const row = await engine.log.find(sessionId);
    if (row && (await findRunStart(engine.log, row, runId)) !== undefined) return sessionId;
  }
  return undefined;
}
