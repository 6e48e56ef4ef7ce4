import { parseOthersJson } from "../contract/index.ts";
import { codeOf, type Link } from "./backend.ts";
import type { FileMap } from "./file-map.ts";
import { fitResult, type ResultSchema } from "./result-schema.ts";

/**
 * What the agent left in `output/`.
 *
 * @example
 * const { files, data, error, rawData }: OutputResult = await sluice.getOutputFiles(true);
 * if (data === null) console.error(error, rawData);
 */
export interface OutputResult<T = unknown> {
  /** The files that the last run or command made or changed. */
  files: FileMap;
  /** `result.json` as the schema gives it back; null without a schema, or where it does not fit. */
  data: T | null;
  /** Why there is no data, where a schema was set. */
  error?: string;
  /** What `result.json` holds, where it does not fit. */
  rawData?: string;
}

/** How the files of `output/` were before a run: a file that is the same still is not its work. */
export type Snapshot = ReadonlyMap<string, string>;

export const WORKSPACE = "/home/user/workspace";
const OUTPUT = `${WORKSPACE}/output`;
const RESULT = "result.json";

export async function takeSnapshot(link: Link, session: string): Promise<Snapshot> {
  const found = await listFiles(link, session, true);
  return new Map(found.map(({ path, mark }) => [path, mark]));
}

export async function readOutput(
  link: Link,
  session: string,
  options: { recursive: boolean; before: Snapshot | undefined; schema: ResultSchema | undefined },
): Promise<OutputResult> {
  const { before, schema } = options;
  const found = await listFiles(link, session, options.recursive);
  const fresh = found.filter(({ path, mark }) => before?.get(path) !== mark);
  const contents: [string, FileMap[string]][] = [];
  for (const { path } of fresh) {
    const bytes = await link.files.read(session, `${OUTPUT}/${path}`).catch(ignoreAbsent);
    if (bytes) contents.push([path, toContent(bytes)]);
  }
  // Unlike an assignment, this keeps a file that is named __proto__.
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
): Promise<{ path: string; mark: string }[]> {
  const folder = below === "" ? OUTPUT : `${OUTPUT}/${below}`;
  const entries = (await link.files.list(session, folder).catch(ignoreAbsent)) ?? [];
  const found: { path: string; mark: string }[] = [];
  for (const { name, entryType, size, modified } of entries) {
    const path = below === "" ? name : `${below}/${name}`;
    if (entryType === "file") found.push({ path, mark: `${size} ${modified}` });
    if (entryType === "directory" && recursive)
      found.push(...(await listFiles(link, session, recursive, path)));
  }
  return found;
}

/** Text is given as text; what is no text stays bytes. */
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
