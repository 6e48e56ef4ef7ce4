import { posix } from "node:path";
import { z } from "zod";
import type { SpoolBatch } from "../../spool/index.ts";
import { nonsense } from "./client.ts";

const Count = z.number().int().nonnegative();
const Text = z.string();
const Short = z.string().max(4_096);
const AbsolutePath = Short.refine((path) => path.startsWith("/") && !path.includes("\0"));
const Exit = z.object({
  code: z.number().int().optional(),
  signal: Short.optional(),
  lost: z.boolean().optional(),
});
const StderrLine = z.object({ text: Text, isLong: z.boolean() });

const Facts = z.object({
  id: Short,
  paths: z.object({
    workspace: AbsolutePath,
    home: AbsolutePath,
    uploads: AbsolutePath,
    outputs: AbsolutePath,
  }),
  shortcomings: z.array(Short).max(100),
  canPause: z.boolean(),
  gateway: z.number().int().min(1).max(65_535),
});

/** A name that leads elsewhere would reach the folder of a client that copies the listing. */
const Entry = z
  .object({
    path: z.string().max(8_192),
    name: Short,
    entryType: z.enum(["file", "directory", "symlink", "other"]),
    size: Count,
    modified: z.number(),
    version: Short.optional(),
  })
  .refine(({ path, name }) => isInnerName(name) && posix.basename(path) === name);

function isInnerName(name: string): boolean {
  return name !== ".." && name !== "." && !name.includes("/") && !name.includes("\0");
}

const Change = z.object({
  type: z.enum(["create", "change", "delete"]),
  path: Short.refine((path) => path.split("/").every((name) => name !== "" && isInnerName(name))),
  timestamp: z.number().min(0).max(8.64e15),
});

/** The answers of the runner, by operation. An operation that is not here answers nothing. */
const ANSWERS: Readonly<Record<string, z.ZodType>> = {
  create: Facts,
  facts: Facts,
  state: z.object({
    pid: Count.optional(),
    exit: Exit.optional(),
    size: Count,
    length: Count,
    errorLength: Count,
    isAlive: z.boolean(),
  }),
  send: z.boolean(),
  sent: z.array(z.object({ id: Short, at: Count, text: Text })),
  stderr: z.object({
    total: Count,
    head: z.array(StderrLine),
    tail: z.array(StderrLine).optional(),
  }),
  read: Text,
  verdict: Short.optional(),
  exec: z.object({ exitCode: z.number().int(), stdout: Text, stderr: Text, timedOut: z.boolean() }),
  list: z.array(Entry),
  stat: Entry,
  watch: z.object({ watch: Short, at: Count.nullable() }),
  "watch-take": z.object({
    at: Count,
    changes: z.array(Change),
    warnings: z.array(z.object({ reason: Short, detail: Short })).max(100),
  }),
  "watch-flush": Count,
  "watch-remember": z.boolean(),
  diff: z.object({ diff: z.string().max(16 * 1024 * 1024) }).optional(),
  "checkpoint-take": z.object({ hash: Short, packs: z.array(Short).max(100_000) }),
  listen: z.number().int().min(1).max(65_535),
};

/** Checks an answer: the machine of an agent may be in the hands of that agent. */
export function checkAnswer<T>(operation: string, value: unknown): T {
  const schema = Object.hasOwn(ANSWERS, operation) ? ANSWERS[operation] : undefined;
  if (!schema) return undefined as T;
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data as T;
  throw nonsense(`${operation} answers with another shape`);
}

/** A batch of a follow that began at this offset. By hand: every line of an agent comes through here. */
export function checkBatch(value: unknown, from: number): SpoolBatch {
  const { lines, offset, exit } = value as { lines?: unknown; offset?: unknown; exit?: unknown };
  if (!Array.isArray(lines) || typeof offset !== "number" || !Number.isSafeInteger(offset) || offset < from)
    throw nonsense("a batch of output has another shape");
  for (const line of lines as unknown[])
    if (!isLine(line, from, offset)) throw nonsense("a line of output has another shape");
  const checked = exit === undefined ? undefined : Exit.safeParse(exit);
  if (checked?.success === false) throw nonsense("a batch of output has another shape");
  return {
    lines: lines as SpoolBatch["lines"],
    offset,
    ...(checked?.data ? { exit: checked.data as NonNullable<SpoolBatch["exit"]> } : {}),
  };
}

const Damage = z.object({ reason: z.enum(["utf8", "too_long"]), sha256: Short, bytes: Count }).optional();

function isLine(line: unknown, from: number, to: number): boolean {
  const { dir, text, at, damage } = (line ?? {}) as Record<string, unknown>;
  if (dir !== "out" || typeof text !== "string" || typeof at !== "number") return false;
  return at >= from && at <= to && (damage === undefined || Damage.safeParse(damage).success);
}

const Output = z.object({ stdout: Text, stderr: Text, exit: Exit.optional() });

export function checkOutput(value: unknown): z.infer<typeof Output> {
  const parsed = Output.safeParse(value);
  if (parsed.success) return parsed.data;
  throw nonsense("a batch of output has another shape");
}
