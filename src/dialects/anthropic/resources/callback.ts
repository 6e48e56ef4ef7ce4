import { z } from "zod";

/** Names that a dialect reads as its own: a runner tells facts, it does not steer. */
const RESERVED = /^(sluice|universal|anthropic|ag-ui|ndjson|acp)\./;

const Custom = z.strictObject({
  type: z.literal("custom"),
  name: z
    .string()
    .min(1)
    .max(256)
    .refine((name) => !RESERVED.test(name), "the name is reserved"),
  value: z.unknown(),
});

const ErrorReport = z.strictObject({
  type: z.literal("error"),
  message: z.string().min(1).max(10_000),
  code: z
    .string()
    .regex(/^[a-z0-9_]{1,64}$/, "expected lower-case letters, digits and underscores")
    .optional(),
  details: z.unknown().optional(),
});

/** What a remote runner reports at once: all of it reaches the log, or nothing. */
export const Callback = z.strictObject({
  run_id: z.string().min(1).max(128),
  events: z
    .array(z.discriminatedUnion("type", [Custom, ErrorReport]))
    .min(1)
    .max(100),
});
export type Callback = z.infer<typeof Callback>;

/** Who may report of a session now. */
export interface CallbackRunBody {
  readonly run_id: string;
  /** Whose session it is. */
  readonly owner: string;
  /** Tells it from a later session of the same name. */
  readonly session_created_at: number;
}
