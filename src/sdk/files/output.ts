import { z } from "zod";
import { parseOthersJson } from "../../contract/index.ts";
import { codeOf, type Link } from "../backend/port.ts";
import { type FileMap, WORKSPACE } from "./workspace.ts";

/**
 * The files in `output/`.
 *
 * @example
 * const { files, data, error, rawData }: OutputResult = await sluice.getOutputFiles(true);
 * if (data === null) console.error(error, rawData);
 */
export interface OutputResult<T = unknown> {
  /** The files that the last run or command created or changed. */
  files: FileMap;
  /** `result.json` parsed by the schema; null without a schema or without a valid result. */
  data: T | null;
  /** The reason for which `data` is null despite a schema. */
  error?: string;
  /** The text of an invalid `result.json`. */
  rawData?: string;
}

/** The version of each file in `output/`, by path. A changed file has another one. */
export type OutputStamps = ReadonlyMap<string, string>;

const OUTPUT = `${WORKSPACE}/output`;
const RESULT = "result.json";

export async function readStamps(link: Link, session: string): Promise<OutputStamps> {
  const found = await listFiles(link, session, true);
  return new Map(found.map(({ path, stamp }) => [path, stamp]));
}

export async function readOutput(
  link: Link,
  session: string,
  options: { recursive: boolean; before: OutputStamps | undefined; schema: ResultSchema | undefined },
): Promise<OutputResult> {
  const { before, schema } = options;
  const found = await listFiles(link, session, options.recursive);
  const changed = found.filter(({ path, stamp }) => before?.get(path) !== stamp);
  const contents: [string, FileMap[string]][] = [];
  for (const { path } of changed) {
    const bytes = await link.files.read(session, `${OUTPUT}/${path}`).catch(ignoreAbsent);
    if (bytes) contents.push([path, toContent(bytes)]);
  }
  // `fromEntries` keeps a file named __proto__, which an assignment would lose.
  const files: FileMap = Object.fromEntries(contents);
  return { files, ...(schema ? toResult(schema, files[RESULT]) : { data: null }) };
}

function toResult(schema: ResultSchema, content: FileMap[string] | undefined): Omit<OutputResult, "files"> {
  if (content === undefined)
    return { data: null, error: "Schema provided but agent did not create output/result.json" };
  const rawData = typeof content === "string" ? content : Buffer.from(content as Uint8Array).toString("utf8");
  let value: unknown;
  try {
    value = parseOthersJson(rawData);
  } catch (error) {
    return { data: null, error: `Failed to parse result.json: ${(error as Error).message}`, rawData };
  }
  const fitted = fitResult(schema, value);
  if ("data" in fitted) return { data: fitted.data };
  return { data: null, error: `Schema validation failed: ${fitted.error}`, rawData };
}

async function listFiles(
  link: Link,
  session: string,
  recursive: boolean,
  below = "",
): Promise<{ path: string; stamp: string }[]> {
  const folder = below === "" ? OUTPUT : `${OUTPUT}/${below}`;
  const entries = (await link.files.list(session, folder).catch(ignoreAbsent)) ?? [];
  const found: { path: string; stamp: string }[] = [];
  for (const { name, entryType, size, modified, version } of entries) {
    const path = below === "" ? name : `${below}/${name}`;
    if (entryType === "file") found.push({ path, stamp: version ?? `${size} ${modified}` });
    if (entryType === "directory" && recursive)
      found.push(...(await listFiles(link, session, recursive, path)));
  }
  return found;
}

/** Text for UTF-8, bytes for anything else. */
function toContent(bytes: Uint8Array): string | Uint8Array {
  if (bytes.includes(0)) return bytes;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return bytes;
  }
}

function ignoreAbsent(error: unknown): undefined {
  if (codeOf(error) === "file_not_found") return undefined;
  throw error;
}

/**
 * A zod schema, or JSON Schema.
 *
 * @example
 * const schema: ResultSchema = { type: "object", properties: { score: { type: "number" } }, required: ["score"] };
 * new Sluice().withSchema(schema);
 */
export type ResultSchema<T = unknown> = ZodLike<T> | Readonly<Record<string, unknown>>;

/** The part of a schema that every version of zod has. */
export interface ZodLike<T> {
  safeParse(value: unknown): { success: true; data: T } | { success: false; error: { message: string } };
}

/**
 * The type of a valid result.
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

function isZod(schema: ResultSchema): schema is ZodLike<unknown> {
  return typeof (schema as { safeParse?: unknown }).safeParse === "function";
}

/** The instructions for the agent to write a valid result. */
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
    // A schema of another zod version, or one without a JSON Schema: the agent gets only the file's name.
    return undefined;
  }
}

/** The parsed value, or the reason why it is invalid. */
function fitResult(
  schema: ResultSchema,
  value: unknown,
): { readonly data: unknown } | { readonly error: string } {
  const validator = isZod(schema) ? schema : z.fromJSONSchema(schema as never);
  const parsed = validator.safeParse(value);
  return parsed.success ? { data: parsed.data } : { error: toReason(parsed.error) };
}

function toReason(error: { message: string }): string {
  const { issues } = error as { issues?: readonly { path: readonly PropertyKey[]; message: string }[] };
  if (!issues || issues.length === 0) return error.message;
  return issues
    .map(({ path, message }) => `${path.map(String).join(".") || "the result"}: ${message}`)
    .join("; ");
}
