import type { Parameter, Query } from "../../postgres/connections.ts";
import type { Batch } from "../port.ts";
import type { NewSegment } from "../segment.ts";
import type { Position } from "../store.ts";
import { joinNumbers, Separated } from "./lists.ts";

/** A batch whose states are texts already: the objects of the caller go on changing. */
export interface ReadyBatch extends Omit<Batch, "snapshot"> {
  readonly snapshot?: string;
  readonly decoderState?: string;
}

export function toReady({ snapshot, ...batch }: Batch): ReadyBatch {
  const { checkpoint } = batch.spool ?? {};
  return {
    ...batch,
    ...(snapshot !== undefined && { snapshot: JSON.stringify(snapshot) }),
    ...(checkpoint !== undefined && { decoderState: JSON.stringify(checkpoint) }),
  };
}

/** Whether the batch has more than events. Such a batch is the last one of its run. */
export function isRich({ key, snapshot, history, decoderState, usage }: ReadyBatch): boolean {
  return [key, snapshot, history, decoderState, usage].some((part) => part !== undefined);
}

/** Consecutive batches of one session, which move its head once. Only the last one may have more than events. */
export interface Run {
  readonly position: Position;
  readonly batches: readonly ReadyBatch[];
  readonly segments: readonly NewSegment[];
  readonly head: number;
}

/**
 * Stores the runs of many sessions in one statement, and returns the ordinals of those that were stored. Each passes its
 * own fence: a session whose epoch or head has moved, or whose key is taken, matches no row of `moved`.
 */
export async function commitRuns(query: Query, runs: readonly Run[]): Promise<Set<number>> {
  const values = new Values();
  const lasts = runs.map(({ position, batches }) => ({
    ordinal: position.ordinal,
    ...(batches.at(-1) as ReadyBatch),
  }));
  const parts = [
    toInput(values, runs),
    MOVED,
    toSegments(values, runs),
    ...toBlobs(values, runs.flatMap(blobsOf)),
    ...toStates(values, runs.flatMap(statesOf)),
    ...toKeys(values, lasts),
    ...toTurns(values, lasts),
    ...toFolds(values, lasts),
    ...toUsage(values, lasts),
  ];
  const rows = await query(`WITH ${parts.join(",\n")} SELECT session FROM moved`, values.all);
  return new Set(rows.map((row) => Number(row["session"])));
}

/** The parameters of the statement. Each method adds a list as one parameter, and returns the SQL that reads it. */
class Values {
  readonly #texts = new Separated();
  /** The first parameter is the separator of texts. */
  readonly all: Parameter[] = [this.#texts];

  /** An absent number is null. */
  numbers(list: readonly (number | undefined)[]): string {
    return `string_to_array(${this.one(joinNumbers(list))}, ',', '')::bigint[]`;
  }

  texts(list: readonly string[]): string {
    return `string_to_array(${this.one(this.#texts.join(list))}, $1)`;
  }

  /** An absent text is null, and so is an empty one. */
  optionalTexts(list: readonly (string | undefined | null)[]): string {
    return `string_to_array(${this.one(this.#texts.join(list))}, $1, '')`;
  }

  one(value: Parameter): string {
    return `$${this.all.push(value)}`;
  }
}

type Last = ReadyBatch & { readonly ordinal: number };

function toInput(values: Values, runs: readonly Run[]): string {
  const lasts = runs.map(({ batches }) => batches.at(-1) as ReadyBatch);
  const columns = [
    values.numbers(runs.map(({ position }) => position.ordinal)),
    values.numbers(lasts.map(({ epoch }) => epoch)),
    values.numbers(runs.map(({ position }) => position.head)),
    values.numbers(runs.map(({ head }) => head)),
    values.numbers(lasts.map(({ time }) => time)),
    values.numbers(runs.map(({ batches }) => toActive(batches))),
    values.numbers(runs.map(({ batches }) => newestSpool(batches)?.process)),
    values.numbers(runs.map(({ batches }) => newestSpool(batches)?.offset)),
    values.numbers(
      runs.map(({ segments }) => segments.reduce((sum, segment) => sum + sizeOf(segment).all, 0)),
    ),
    values.optionalTexts(lasts.map(({ key }) => key?.key)),
  ];
  return `input AS MATERIALIZED (SELECT * FROM unnest(${columns.join(", ")})
    i(session, epoch, after, head, time, active, process, spool_offset, bytes, key))`;
}

const MOVED = `moved AS (UPDATE sluice.places p SET head = i.head, updated_at = i.time, bytes = p.bytes + i.bytes,
    active = coalesce(i.active = 1, p.active), process = coalesce(i.process, p.process),
    spool_offset = coalesce(i.spool_offset, p.spool_offset)
  FROM input i
  WHERE p.session = i.session AND p.epoch = i.epoch AND p.head = i.after
    AND NOT EXISTS (SELECT 1 FROM sluice.keys k WHERE k.session = i.session AND k.key = i.key)
  RETURNING p.session)`;

function toSegments(values: Values, runs: readonly Run[]): string {
  const list = runs.flatMap(({ position: { ordinal }, segments }) =>
    segments.map((segment) => ({ ordinal, segment })),
  );
  const columns = [
    values.numbers(list.map(({ ordinal }) => ordinal)),
    values.numbers(list.map(({ segment }) => segment.first)),
    values.numbers(list.map(({ segment }) => segment.last)),
    values.numbers(list.map(({ segment }) => sizeOf(segment).texts)),
    values.numbers(list.map(({ segment }) => sizeOf(segment).blobs)),
    values.texts(list.map(({ segment }) => segment.bodies)),
    values.optionalTexts(list.map(({ segment }) => segment.raws)),
  ];
  return `segmented AS (INSERT INTO sluice.segments (session, first, last, bytes, blob_bytes, bodies, raws)
    SELECT n.* FROM unnest(${columns.join(", ")}) n(session, first, last, bytes, blob_bytes, bodies, raws)
    JOIN moved USING (session))`;
}

function toBlobs(values: Values, list: readonly Blob[]): string[] {
  if (list.length === 0) return [];
  const columns = [
    values.numbers(list.map(({ ordinal }) => ordinal)),
    values.texts(list.map(({ hash }) => hash)),
    values.numbers(list.map(({ last }) => last)),
    values.texts(list.map(({ content }) => content)),
  ];
  return [
    `blobbed AS (INSERT INTO sluice.blobs (session, hash, last, bytes, content)
      SELECT n.session, n.hash, n.last, octet_length(n.content), n.content
      FROM unnest(${columns.join(", ")}) n(session, hash, last, content) JOIN moved USING (session)
      ON CONFLICT (session, hash) DO UPDATE SET last = greatest(blobs.last, excluded.last))`,
  ];
}

function toStates(values: Values, list: readonly State[]): string[] {
  if (list.length === 0) return [];
  const columns = [
    values.numbers(list.map(({ ordinal }) => ordinal)),
    values.texts(list.map(({ kind }) => kind)),
    values.numbers(list.map(({ at }) => at)),
    values.numbers(list.map(({ process }) => process)),
    values.texts(list.map(({ state }) => state)),
  ];
  return [
    `stated AS (INSERT INTO sluice.states (session, kind, at, process, state)
      SELECT n.* FROM unnest(${columns.join(", ")}) n(session, kind, at, process, state) JOIN moved USING (session)
      ON CONFLICT (session, kind) DO UPDATE SET at = excluded.at, process = excluded.process, state = excluded.state)`,
  ];
}

function toKeys(values: Values, lasts: readonly Last[]): string[] {
  const list = lasts.flatMap(({ ordinal, key }) => (key ? [{ ordinal, ...key }] : []));
  if (list.length === 0) return [];
  const columns = [
    values.numbers(list.map(({ ordinal }) => ordinal)),
    values.texts(list.map(({ key }) => key)),
    values.texts(list.map(({ fingerprint }) => fingerprint)),
    values.texts(list.map(({ answer }) => answer)),
  ];
  return [
    `keyed AS (INSERT INTO sluice.keys (session, key, fingerprint, answer)
      SELECT n.session, n.key, coalesce(n.fingerprint, ''), coalesce(n.answer, '') FROM unnest(${columns.join(", ")}) n(session, key, fingerprint, answer) JOIN moved USING (session))`,
  ];
}

function toTurns(values: Values, lasts: readonly Last[]): string[] {
  const list = lasts.flatMap(({ ordinal, history }) =>
    (history?.turns ?? []).map((turn) => ({ ordinal, turn })),
  );
  if (list.length === 0) return [];
  const columns = [
    values.numbers(list.map(({ ordinal }) => ordinal)),
    values.numbers(list.map(({ turn }) => turn.last)),
    values.numbers(list.map(({ turn }) => turn.from)),
    values.texts(list.map(({ turn }) => turn.outline)),
  ];
  return [
    `turned AS (INSERT INTO sluice.turns (session, last, began, outline)
      SELECT n.* FROM unnest(${columns.join(", ")}) n(session, last, began, outline)
      JOIN moved USING (session) ON CONFLICT DO NOTHING)`,
  ];
}

function toFolds(values: Values, lasts: readonly Last[]): string[] {
  const list = lasts.flatMap(({ ordinal, history }) =>
    (history?.folds ?? []).map((fold) => ({ ordinal, fold })),
  );
  if (list.length === 0) return [];
  const columns = [
    values.numbers(list.map(({ ordinal }) => ordinal)),
    values.numbers(list.map(({ fold }) => fold.at)),
    values.texts(list.map(({ fold }) => fold.state)),
  ];
  return [
    `folded AS (INSERT INTO sluice.folds (session, at, state)
      SELECT n.* FROM unnest(${columns.join(", ")}) n(session, at, state)
      JOIN moved USING (session) ON CONFLICT DO NOTHING)`,
  ];
}

/** Usage of one row is added up first: a statement can change a row only once. */
function toUsage(values: Values, lasts: readonly Last[]): string[] {
  const used = lasts.flatMap(({ ordinal, usage = [] }) =>
    usage.map((row) => Object.assign({ ordinal }, row)),
  );
  if (used.length === 0) return [];
  return [
    `used AS (INSERT INTO sluice.usage (tenant, day, ordinal, session, model, provider, price,
        requests, input, output, cache_read, cache_write, reasoning, usd)
      SELECT coalesce(s.tenant, ''), n.day, s.ordinal, s.id, n.model, n.provider, n.price, sum(n.requests), sum(n.input),
        sum(n.output), sum(n."cacheRead"), sum(n."cacheWrite"), sum(n.reasoning), sum(n.usd)
      FROM json_to_recordset(${values.one(JSON.stringify(used))}::text::json) n(ordinal bigint, day text, model text,
        provider text, price text, requests bigint, input bigint, output bigint, "cacheRead" bigint,
        "cacheWrite" bigint, reasoning bigint, usd double precision)
      JOIN moved ON moved.session = n.ordinal JOIN sluice.sessions s ON s.ordinal = n.ordinal
      GROUP BY s.tenant, n.day, s.ordinal, s.id, n.model, n.provider, n.price
      ON CONFLICT (tenant, day, ordinal, model, provider, price) DO UPDATE SET
        requests = usage.requests + excluded.requests, input = usage.input + excluded.input,
        output = usage.output + excluded.output, cache_read = usage.cache_read + excluded.cache_read,
        cache_write = usage.cache_write + excluded.cache_write, reasoning = usage.reasoning + excluded.reasoning,
        usd = usage.usd + excluded.usd)`,
  ];
}

/** The text as JSON, which escapes U+0000: a text of PostgreSQL cannot hold that character. */
export function toContent(text: string): string {
  return JSON.stringify(text);
}

interface Blob {
  readonly ordinal: number;
  readonly hash: string;
  readonly last: number;
  readonly content: string;
}

function blobsOf({ position, segments }: Run): Blob[] {
  const blobs = new Map<string, Blob>();
  for (const segment of segments)
    for (const { hash, text } of segment.blobs) {
      const content = blobs.get(hash)?.content ?? toContent(text);
      blobs.set(hash, { ordinal: position.ordinal, hash, last: segment.last, content });
    }
  return [...blobs.values()];
}

interface State {
  readonly ordinal: number;
  readonly kind: string;
  readonly at: number;
  readonly process?: number;
  readonly state: string;
}

function statesOf({ position: { ordinal }, batches, head }: Run): State[] {
  const { snapshot, spool, decoderState } = batches.at(-1) as ReadyBatch;
  const states: State[] = [];
  if (snapshot !== undefined) states.push({ ordinal, kind: "snapshot", at: head, state: snapshot });
  if (spool && decoderState !== undefined)
    states.push({
      ordinal,
      kind: "checkpoint",
      at: spool.offset,
      process: spool.process,
      state: decoderState,
    });
  return states;
}

function newestSpool(batches: readonly ReadyBatch[]): Batch["spool"] {
  return batches.findLast(({ spool }) => spool)?.spool;
}

function toActive(batches: readonly ReadyBatch[]): number | undefined {
  const active = batches.findLast((batch) => batch.active !== undefined)?.active;
  return active === undefined ? undefined : Number(active);
}

function sizeOf({ bodies, raws, blobs }: NewSegment): { texts: number; blobs: number; all: number } {
  const texts = bodies.length + (raws?.length ?? 0);
  const large = blobs.reduce((sum, { text }) => sum + text.length, 0);
  return { texts, blobs: large, all: texts + large };
}
