import { type ErrorCode, SluiceError } from "../../contract/index.ts";
import type { z } from "zod";

/** Takes the untrusted: what does not fit is an error that names each field and what is expected of it. */
export function parseWith<T>(schema: z.ZodType<T>, value: unknown, where: "body" | "query" | "path"): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw toInvalid(parsed.error, where);
}

export function toInvalid(error: z.ZodError, where: "body" | "query" | "path"): SluiceError {
  const errors = error.issues.map((issue) => ({ field: toField(issue.path), message: toMessage(issue) }));
  const isCursor = where === "query" && errors.every(({ field }) => field === "after" || field === "offset");
  const code: ErrorCode = isCursor ? "invalid_cursor" : "invalid_request";
  const told = errors
    .slice(0, MAX_TOLD)
    .map(({ field, message }) => (field ? `${field}: ${message}` : message));
  const more = errors.length > MAX_TOLD ? `; and ${errors.length - MAX_TOLD} more` : "";
  return new SluiceError(code, `The ${where} does not fit. ${told.join("; ")}${more}.`, {
    errors: errors.slice(0, MAX_TOLD),
  });
}

const MAX_TOLD = 20;

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
