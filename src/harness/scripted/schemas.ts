import { z } from "zod";
import { EVENT_DATA, PlanEntry, Usage } from "../../contract/index.ts";
import type { AgentLine } from "../../scripted-agent/protocol.ts";

// Schemas of the agent's lines, which allow unknown fields. Deltas are checked without a schema.

const parent = z.string().optional();
/** Any JSON value of limited depth, so that it can be serialised again. */
const payload = z
  .unknown()
  .refine((value) => !isNestedDeeper(value, 1_000), "nested more than 1000 levels deep");
const file = z
  .object({ path: z.string(), action: z.enum(["read", "write", "patch"]), diff: z.string().optional() })
  .optional();
const started = z.object({ id: z.string(), parent });
const ended = z.object({ id: z.string(), text: z.string() });
const asked = z.object({ id: z.string(), call: z.string(), name: z.string(), input: payload, parent });

export const LINE_SCHEMAS = {
  session: z.object({
    id: z.string(),
    resumed: z.boolean(),
    model: z.string().optional(),
    variant: z.string().optional(),
  }),
  "turn.started": z.object({ turn: z.int() }),
  "text.started": started,
  "thinking.started": started,
  "text.ended": ended,
  "thinking.ended": ended,
  image: z.object({ id: z.string(), data: z.string(), mime: z.string(), parent }),
  "tool.called": z.object({ id: z.string(), name: z.string(), input: payload, file, parent }),
  "tool.started": z.object({ id: z.string() }),
  "tool.ended": z.object({
    id: z.string(),
    output: z.string(),
    failed: z.boolean(),
    exit_code: z.int().optional(),
    interrupted: z.boolean().optional(),
    file,
  }),
  "permission.asked": asked,
  "tool.asked": asked.extend({ builtin: z.literal(true).optional() }),
  "question.asked": z.object({ id: z.string(), prompt: z.string(), options: z.array(z.string()), parent }),
  plan: z.object({ id: z.string(), entries: z.array(z.object(PlanEntry.shape)), parent }),
  compacted: z.object({ id: z.string(), ...EVENT_DATA["context.compacted"].shape, parent }),
  "model.started": z.object({ id: z.string(), model: z.string().optional(), parent }),
  "model.ended": z.object({ id: z.string(), usage: z.object(Usage.shape), estimated: z.boolean() }),
  "model.failed": z.object({
    id: z.string(),
    kind: z.enum(["overloaded", "rate_limited", "bad_gateway", "terminal"]),
    message: z.string(),
    retryable: z.boolean(),
  }),
  error: z.object({ code: z.string(), message: z.string(), details: payload.optional(), parent }),
  "turn.ended": z.object({
    turn: z.int(),
    stop_reason: z.enum(["end_turn", "refusal", "interrupted", "failed"]),
    reason: z.string().optional(),
    error: z.object({ code: z.string(), message: z.string() }).optional(),
  }),
} satisfies { [T in CheckedType]: z.ZodType };

type DeltaType = "text.delta" | "thinking.delta" | "tool.output";
export type CheckedType = Exclude<AgentLine["type"], DeltaType>;
export type Checked<T extends CheckedType> = z.infer<(typeof LINE_SCHEMAS)[T]>;

export function isCheckedType(type: unknown): type is CheckedType {
  return typeof type === "string" && Object.hasOwn(LINE_SCHEMAS, type);
}

function isNestedDeeper(value: unknown, limit: number): boolean {
  let level: unknown[] = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > limit) return true;
    level = level.flatMap((entry) =>
      typeof entry === "object" && entry !== null ? Object.values(entry) : [],
    );
  }
  return false;
}
