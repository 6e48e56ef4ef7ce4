import { z } from "zod";

/**
 * A zod schema, or JSON Schema.
 *
 * @example
 * const schema: ResultSchema = { type: "object", properties: { score: { type: "number" } }, required: ["score"] };
 * new Sluice().withSchema(schema);
 */
export type ResultSchema<T = unknown> = ZodLike<T> | Readonly<Record<string, unknown>>;

/** Any version of zod has these. */
export interface ZodLike<T> {
  safeParse(value: unknown): { success: true; data: T } | { success: false; error: { message: string } };
}

/**
 * What a result is once it fits the schema.
 *
 * @example
 * const Score = z.object({ score: z.number() });
 * const result: ResultOf<typeof Score> = { score: 85 };
 */
export type ResultOf<S> = S extends { readonly _output: infer T }
  ? T
  : S extends ZodLike<infer T>
    ? T
    : unknown;

export function isZod(schema: ResultSchema): schema is ZodLike<unknown> {
  return typeof (schema as { safeParse?: unknown }).safeParse === "function";
}

/** What an agent is told so that it leaves a result that fits. */
export function toResultInstructions(schema: ResultSchema): string {
  const shape = describe(schema);
  return [
    "When you are done, write your result as JSON to the file output/result.json in your workspace",
    "(/home/user/workspace/output/result.json). Nothing else may be in that file.",
    ...(shape === undefined ? [] : ["It has to fit this JSON Schema:", "```json", shape, "```"]),
  ].join("\n");
}

function describe(schema: ResultSchema): string | undefined {
  try {
    const shape = isZod(schema) ? z.toJSONSchema(schema as unknown as z.ZodType) : schema;
    return JSON.stringify(shape, null, 2);
  } catch {
    // Another version of zod, or a schema that JSON Schema has no words for: the name of the file has to do.
    return undefined;
  }
}

/** The value as the schema gives it back, or why it does not fit. */
export function fitResult(
  schema: ResultSchema,
  value: unknown,
): { readonly data: unknown } | { readonly error: string } {
  const validator = isZod(schema) ? schema : z.fromJSONSchema(schema as never);
  const parsed = validator.safeParse(value);
  return parsed.success ? { data: parsed.data } : { error: wordsOf(parsed.error) };
}

function wordsOf(error: { message: string }): string {
  const { issues } = error as { issues?: readonly { path: readonly PropertyKey[]; message: string }[] };
  if (!issues || issues.length === 0) return error.message;
  return issues
    .map(({ path, message }) => `${path.map(String).join(".") || "the result"}: ${message}`)
    .join("; ");
}
