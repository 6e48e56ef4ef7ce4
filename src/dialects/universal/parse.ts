import { z } from "zod";
import {
  type Attachment,
  type ContentPart,
  type ErrorCode,
  EVENT_TYPES,
  FormatName,
  type SendMessage,
  SluiceError,
} from "../../contract/index.ts";
import type { UniversalView } from "./project.ts";

/** A message as the content of a user's item. */
export function toContent({ message, attachments = [] }: SendMessage): ContentPart[] {
  return [{ type: "text", text: message }, ...attachments.map(fromAttachment)];
}

function fromAttachment({ path, mime }: Attachment): ContentPart {
  if (mime?.startsWith("image/")) return { type: "image", path, mime };
  return { type: "file_ref", path, action: "read" };
}

/** A whole number in a query. */
export const whole = (min: number, max = Number.MAX_SAFE_INTEGER): z.ZodType<number> =>
  z.preprocess(
    toWhole,
    z
      .int({ error: "expected a whole number" })
      .min(min, { error: `expected at least ${min}` })
      .max(max, { error: `expected at most ${max}` }),
  );

/** `true`, `1`, `false` or `0` in a query. */
export const flag = (): z.ZodType<boolean> =>
  z.preprocess(toFlag, z.boolean({ error: "expected true or false" }));

/** Words of a fixed set in a query, repeated or separated by commas. */
export const listOf = <Word extends string>(
  words: readonly Word[],
  toError?: (issue: { input?: unknown }) => string,
): z.ZodType<Word[]> =>
  z.preprocess(toList, z.array(z.enum(words as readonly [Word, ...Word[]], toError && { error: toError })));

const cursor = {
  cursor: whole(0).optional().describe("the exclusive sequence to read from: `next` of the previous page"),
  offset: whole(0).optional().describe("the same as cursor"),
  after: whole(0).optional().describe("the same as cursor"),
};

export const ViewQuery = z.object({
  include_raw: flag().optional().describe("adds the agent's own line as raw"),
  extensions: flag().optional().describe("adds the event types beyond the universal transcript schema"),
});
export type ViewQuery = z.infer<typeof ViewQuery>;

const format = {
  as: FormatName.optional().describe("the frames of this dialect instead of the events (extension)"),
};

export const StreamQuery = z.object({ ...cursor, ...ViewQuery.shape, ...format });
export type StreamQuery = z.infer<typeof StreamQuery>;

export const PageQuery = z.object({
  ...StreamQuery.shape,
  limit: whole(1, 1000).default(100),
  before: whole(1)
    .optional()
    .describe("the exclusive sequence to read back from; beyond the head means the end (extension)"),
  types: listOf(EVENT_TYPES, toUnknownType)
    .optional()
    .describe("only these types, repeated or separated by commas"),
});
export type PageQuery = z.infer<typeof PageQuery>;

/** Parses the parameters of a URL. A repeated parameter becomes a list. */
export function parseQuery<T>(schema: z.ZodType<T>, search: URLSearchParams): T {
  const values = new Map<string, unknown>();
  for (const [name, value] of search) {
    const before = values.get(name);
    values.set(name, before === undefined ? value : [before, value].flat());
  }
  return parseWith(schema, Object.fromEntries(values), "query");
}

/**
 * The sequence after which a reader resumes; undefined without a cursor. `Last-Event-ID` wins over the query, because a
 * browser reconnects with its first URL.
 */
export function parseCursor(
  query: { cursor?: number | undefined; after?: number | undefined; offset?: number | undefined },
  lastEventId?: string,
): number | undefined {
  const { cursor, offset, after } = query;
  const given = new Map(Object.entries({ cursor, offset, after }).filter(([, value]) => value !== undefined));
  if (new Set(given.values()).size > 1) {
    const named = [...given].map(([name, value]) => `${name} (${value})`).join(" and ");
    throw new SluiceError("invalid_cursor", `${named} are the same thing; give one of them.`);
  }
  if (lastEventId === undefined || lastEventId === "") return cursor ?? after ?? offset;
  const id = toWhole(lastEventId);
  if (typeof id === "number" && Number.isSafeInteger(id)) return id;
  const detail = `Last-Event-ID: expected the id of an event, a whole number, got ${JSON.stringify(lastEventId.slice(0, 80))}.`;
  throw new SluiceError("invalid_cursor", detail);
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

/** Parses untrusted input. An error names the wrong fields, up to a limit, and the expected values. */
export function parseWith<T>(schema: z.ZodType<T>, value: unknown, where: "body" | "query" | "path"): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw toInvalid(parsed.error, where);
}

export function toInvalid(error: z.ZodError, where: "body" | "query" | "path"): SluiceError {
  const errors = error.issues.map((issue) => ({ field: toField(issue.path), message: toMessage(issue) }));
  const isCursor =
    where === "query" && errors.every(({ field }) => ["cursor", "after", "offset", "before"].includes(field));
  const code: ErrorCode = isCursor ? "invalid_cursor" : "invalid_request";
  const shown = errors.slice(0, MAX_SHOWN).map(({ field, message }) => {
    const text = message.replace(/\.$/, "");
    return field ? `${field}: ${text}` : text;
  });
  const more = errors.length > MAX_SHOWN ? `; and ${errors.length - MAX_SHOWN} more` : "";
  return new SluiceError(code, `The ${where} does not fit. ${shown.join("; ")}${more}.`, {
    errors: errors.slice(0, MAX_SHOWN),
  });
}

const MAX_SHOWN = 20;

function toField(path: readonly PropertyKey[]): string {
  return path.map(String).join(".");
}

function toMessage(issue: z.core.$ZodIssue): string {
  if (issue.code === "unrecognized_keys") return `no such field: ${issue.keys.join(", ")}`;
  if (issue.code === "invalid_union" && issue.errors.length > 0) {
    const options = issue.errors.map((errors) => errors.map(toNested).join(" and "));
    return `expected one of: ${[...new Set(options)].join(" | ")}`;
  }
  return issue.message.replace(/^Invalid (input|option): /, "");
}

function toNested(issue: z.core.$ZodIssue): string {
  const field = toField(issue.path);
  return field ? `${field}: ${toMessage(issue)}` : toMessage(issue);
}
