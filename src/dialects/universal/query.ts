import { z } from "zod";
import { EVENT_TYPES, type EventType, SluiceError } from "../../contract/index.ts";
import { parseWith } from "./invalid.ts";
import type { UniversalView } from "./project.ts";

/** Query parameters arrive as text; these say what they mean, and OpenAPI is derived from them. */

export const whole = (min: number, max = Number.MAX_SAFE_INTEGER): z.ZodType<number> =>
  z.preprocess(
    toWhole,
    z
      .int({ error: "expected a whole number" })
      .min(min, { error: `expected at least ${min}` })
      .max(max, { error: `expected at most ${max}` }),
  ) as unknown as z.ZodType<number>;

export const flag = (): z.ZodType<boolean> =>
  z.preprocess(toFlag, z.boolean({ error: "expected true or false" })) as unknown as z.ZodType<boolean>;

const cursor = {
  offset: whole(0).optional().describe("an exclusive sequence: the events behind it"),
  after: whole(0).optional().describe("the same as offset"),
};

export const ViewQuery = z.object({
  include_raw: flag().optional().describe("with the agent's own line in raw"),
  extensions: flag().optional().describe("also the types that the plain schema does not define"),
});
export type ViewQuery = z.infer<typeof ViewQuery>;

export const StreamQuery = z.object({ ...cursor, ...ViewQuery.shape });
export type StreamQuery = z.infer<typeof StreamQuery>;

export const PageQuery = z.object({
  ...StreamQuery.shape,
  limit: whole(1, 1000).default(100),
  types: (
    z.preprocess(
      toList,
      z.array(z.enum(EVENT_TYPES as [EventType, ...EventType[]], { error: toUnknownType })),
    ) as unknown as z.ZodType<EventType[]>
  )
    .optional()
    .describe("only these types, repeated or separated by commas"),
});
export type PageQuery = z.infer<typeof PageQuery>;

/** `{a: "1", types: ["x", "y"]}`: a parameter that is given more than once is a list. */
export function parseQuery<T>(schema: z.ZodType<T>, search: URLSearchParams): T {
  const values = new Map<string, unknown>();
  for (const [name, value] of search) {
    const before = values.get(name);
    values.set(name, before === undefined ? value : [before, value].flat());
  }
  return parseWith(schema, Object.fromEntries(values), "query");
}

/**
 * Where to read on from. `Last-Event-ID` wins over the query: a browser that reconnects repeats the URL
 * of its first connection. Undefined where neither names a place.
 */
export function parseCursor(
  query: { after?: number | undefined; offset?: number | undefined },
  lastEventId?: string,
): number | undefined {
  const { after, offset } = query;
  if (after !== undefined && offset !== undefined && after !== offset) {
    throw new SluiceError(
      "invalid_cursor",
      `offset (${offset}) and after (${after}) are the same thing; give one of them.`,
    );
  }
  if (lastEventId === undefined || lastEventId === "") return after ?? offset;
  const id = toWhole(lastEventId);
  if (typeof id === "number" && Number.isSafeInteger(id)) return id;
  throw new SluiceError(
    "invalid_cursor",
    `Last-Event-ID: expected the id of an event, a whole number, got ${JSON.stringify(lastEventId.slice(0, 80))}.`,
  );
}

export function toView(query: ViewQuery): UniversalView {
  return { extensions: query.extensions ?? false, includeRaw: query.include_raw ?? false };
}

function toWhole(value: unknown): unknown {
  return typeof value === "string" && /^\d{1,16}$/.test(value) ? Number(value) : value;
}

function toFlag(value: unknown): unknown {
  if (value === "true" || value === "1") return true;
  if (value === "false" || value === "0") return false;
  return value;
}

function toList(value: unknown): unknown {
  if (value === undefined) return undefined;
  const parts = Array.isArray(value) ? value : [value];
  return parts.flatMap((part) => String(part).split(",")).filter((part) => part !== "");
}

function toUnknownType(issue: { input?: unknown }): string {
  return `there is no event type ${JSON.stringify(issue.input)}`;
}
