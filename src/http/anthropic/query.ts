import { z } from "zod";
import type { TimeRange } from "../../catalog/port.ts";
import { refuse } from "../../dialects/anthropic/resources/resource.ts";
import { parseWith } from "../../dialects/universal/index.ts";

/** Query parameters as the SDKs write them: `a[]=1&a[]=2`, `a=1&a=2` and `a=1,2` are one list. */
export function parseParams<T>(schema: z.ZodType<T>, search: URLSearchParams): T {
  const values = new Map<string, string | string[]>();
  for (const [name, value] of search) {
    const key = name.replace(/\[\d*\]$/, "");
    const before = values.get(key);
    values.set(key, before === undefined && key === name ? value : [before ?? [], value].flat());
  }
  for (const key of values.keys()) if (isMisspelt(key)) throw refuse(`query: there is no filter ${key}.`);
  return parseWith(schema, Object.fromEntries(values), "query");
}

/** 1 to `max`; `usual` if absent. */
export function limitOf(usual: number, max = 1000): z.ZodType<number> {
  const error = `expected a whole number from 1 to ${max}`;
  return z.preprocess(toWhole, z.int({ error }).min(1, { error }).max(max, { error })).default(usual);
}

/** Digits as a number. */
export function toWhole(value: unknown): unknown {
  return typeof value === "string" && /^\d{1,9}$/.test(value) ? Number(value) : value;
}

export function listOf<Item extends z.ZodType<unknown, string>>(
  item: Item,
): z.ZodType<z.infer<Item>[] | undefined> {
  const split = z
    .union([z.string(), z.array(z.string())])
    .transform((value) => [value].flat().flatMap((part) => part.split(",")))
    .transform((parts) => parts.map((part) => part.trim()).filter((part) => part !== ""));
  return split.pipe(z.array(item)).optional();
}

export const text = z.string().min(1).optional();

export const flag = z
  .enum(["true", "false", "1", "0"], { error: "expected true or false" })
  .transform((value) => value === "true" || value === "1")
  .pipe(z.boolean())
  .optional();

/**
 * A time in milliseconds since 1970. Other languages have finer clocks: a time between two milliseconds becomes a half.
 * An unescaped plus sign arrives as a space.
 */
export const moment = z
  .string()
  .transform((value) => value.trim().replace(" ", "+").toUpperCase())
  .pipe(z.iso.datetime({ offset: true, error: "expected a time in RFC 3339" }))
  .transform((value) => Date.parse(value) + (/\.\d{3}0*[1-9]/.test(value) ? 0.5 : 0))
  .optional()
  .meta({ type: "string", format: "date-time" });

export const page = z.string().min(1).optional();

export const order = z.enum(["asc", "desc"], { error: "expected asc or desc" }).optional();

/** The parameters of every list. */
export const ListQuery = z.object({ limit: limitOf(20), page });

export const ArchivableListQuery = z.object({ ...ListQuery.shape, include_archived: flag });

/** The four parameters of a time range. */
export const createdAt = {
  "created_at[gt]": moment,
  "created_at[gte]": moment,
  "created_at[lt]": moment,
  "created_at[lte]": moment,
};

/** Whether a parameter looks like a filter but is none. Without a refusal it would match everything. */
function isMisspelt(key: string): boolean {
  return /^(created_at$|\w+\[)/.test(key) && !Object.hasOwn(createdAt, key);
}

/** Rounds the bounds, as stored times have whole milliseconds. */
export function toTimeRange(query: {
  readonly [Name in keyof typeof createdAt]?: number | undefined;
}): TimeRange {
  return {
    gt: floor(query["created_at[gt]"]),
    gte: ceil(query["created_at[gte]"]),
    lt: ceil(query["created_at[lt]"]),
    lte: floor(query["created_at[lte]"]),
  };
}

function floor(time: number | undefined): number | undefined {
  return time === undefined ? undefined : Math.floor(time);
}

function ceil(time: number | undefined): number | undefined {
  return time === undefined ? undefined : Math.ceil(time);
}
