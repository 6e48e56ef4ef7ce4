import { createHash } from "node:crypto";
import { z } from "zod";
import { parseOthersJson, type ProcessExit, SluiceError, type SpoolLine } from "../contract/index.ts";
import type { Fields } from "./fields.ts";
import type { DecodeContext, Harness, HarnessCommand, HarnessFact } from "./port.ts";

const Entry = z.object({
  t: z.number().optional(),
  dir: z.enum(["meta", "in", "out", "err", "exit", "http-in", "http-out", "sse"]),
  raw: z.string().optional(),
  b64: z.string().optional(),
});

/** One line of a recording. */
export type RecordingEntry =
  | { readonly t: number; readonly dir: SpoolLine["dir"]; readonly raw: string }
  | { readonly t: number; readonly dir: SpoolLine["dir"]; readonly b64: string };

/** One line of the file, with its newline. */
export function formatEntry(entry: RecordingEntry): string {
  return `${JSON.stringify(entry)}\n`;
}

/** The lines of a recording. Blank lines are skipped, and so is a last line that was cut short. */
export function parseRecording(text: string): SpoolLine[] {
  const rows = text.split("\n");
  const last = rows.findLastIndex((row) => row.trim() !== "");
  return rows.flatMap((row, index) => {
    if (row.trim() === "") return [];
    const entry = parseEntry(row);
    if (typeof entry !== "string") return [toLine(entry, index + 1)];
    if (index === last && !text.endsWith("\n")) return [];
    throw new SluiceError(
      "invalid_request",
      `Line ${index + 1} of the recording is not {"t","dir","raw"|"b64"}: ${entry}`,
      { line: index + 1 },
    );
  });
}

/** The facts of a recording, line by line; no process is started. */
export function* decodeRecording(
  harness: Harness,
  lines: Iterable<SpoolLine>,
  options: { idPrefix?: string } = {},
): Generator<{ line: SpoolLine; facts: readonly HarnessFact[] }> {
  let state = harness.initial({ ...recordedContext(harness.id), ...options });
  for (const line of lines) {
    const decoded = harness.decode(state, line);
    state = decoded.state;
    yield { line, facts: decoded.facts };
  }
}

export function recordedContext(agent: string): DecodeContext {
  return { idPrefix: "itm_p1n", spec: { agent }, workspace: "/workspace", home: "/home/user" };
}

/** The command of a recorded reply to a permission request; undefined for any other fields. */
export function toPermission(id: string | undefined, { reply, message }: Fields): HarnessCommand | undefined {
  if (id === undefined || (reply !== "once" && reply !== "always" && reply !== "reject")) return undefined;
  return { type: "permission", id, reply, ...(typeof message === "string" ? { message } : {}) };
}

type Entry = z.infer<typeof Entry>;

function parseEntry(row: string): Entry | string {
  let value: unknown;
  try {
    value = parseOthersJson(row);
  } catch (error) {
    return (error as Error).message;
  }
  const parsed = Entry.safeParse(value);
  return parsed.success ? parsed.data : z.prettifyError(parsed.error);
}

function toLine({ dir, raw, b64 }: Entry, at: number): SpoolLine {
  if (raw !== undefined || b64 === undefined) {
    const text = raw ?? "";
    return dir === "exit" ? { dir, text, at, exit: toExit(text) } : { dir, text, at };
  }
  const bytes = Buffer.from(b64, "base64");
  const text = bytes.toString("utf8");
  if (Buffer.from(text).equals(bytes)) return { dir, text, at };
  const sha256 = createHash("sha256").update(bytes).digest("hex");
  return { dir, text, at, damage: { reason: "utf8", sha256, bytes: bytes.length } };
}

function toExit(text: string): ProcessExit {
  try {
    const { code, signal } = parseOthersJson(text) as { code?: number | null; signal?: string | null };
    return {
      ...(typeof code === "number" ? { code } : {}),
      ...(typeof signal === "string" ? { signal } : {}),
    };
  } catch {
    return { lost: true };
  }
}
