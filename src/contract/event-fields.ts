import { z } from "zod";

export const StderrOutput = z.strictObject({
  head: z.string().optional(),
  tail: z.string().optional(),
  truncated: z.boolean(),
  total_lines: z.int().optional(),
});
export type StderrOutput = z.infer<typeof StderrOutput>;

export const Usage = z.strictObject({
  input_tokens: z.int().nonnegative().optional(),
  output_tokens: z.int().nonnegative().optional(),
  cache_read_tokens: z.int().nonnegative().optional(),
  cache_write_tokens: z.int().nonnegative().optional(),
  cache_write_1h_tokens: z
    .int()
    .nonnegative()
    .optional()
    .describe("the part of cache_write_tokens that is kept for an hour"),
  reasoning_tokens: z.int().nonnegative().optional().describe("the part of output_tokens that is reasoning"),
  cost_usd: z.number().nonnegative().optional(),
});
export type Usage = z.infer<typeof Usage>;

export const EventError = z.strictObject({
  code: z.string(),
  message: z.string(),
  retryable: z.boolean().optional(),
});
export type EventError = z.infer<typeof EventError>;

export const PlanEntry = z.strictObject({
  content: z.string(),
  status: z.enum(["pending", "in_progress", "completed"]),
  priority: z.enum(["high", "medium", "low"]),
});
export type PlanEntry = z.infer<typeof PlanEntry>;

export const ActionKind = z.enum(["permission", "question", "tool"]);
export type ActionKind = z.infer<typeof ActionKind>;

export const StopReason = z.enum([
  "end_turn",
  "max_tokens",
  "max_turns",
  "refusal",
  "interrupted",
  "timeout",
  "terminated",
  "retries_exhausted",
  "budget_reached",
  "model_error",
  "agent_exited",
  "agent_lost",
]);
export type StopReason = z.infer<typeof StopReason>;

/** A sender's settings for one turn. */
export const TurnOptions = z.strictObject({
  timeoutMs: z.int().min(1).optional().describe("the time limit of the turn, in place of the session's"),
  background: z.boolean().optional().describe("the client does not wait for the turn's end"),
  checkpointComment: z.string().optional().describe("of the checkpoint at the turn's end, if one is made"),
});
export type TurnOptions = z.infer<typeof TurnOptions>;

const Offset = z
  .int()
  .optional()
  .describe(
    "the bytes of the gateway's records up to the end of this one; absent if the agent itself reported the request",
  );

/** The model requests of a session: as the gateway measured them, or as the agent reported them. */
export const MODEL_DATA = {
  "model.started": z.strictObject({
    request_id: z.string(),
    model: z.string().optional(),
    wire: z
      .string()
      .optional()
      .describe("the provider's API: anthropic, responses, chat, gemini, bedrock, vertex"),
    provider: z.string().optional(),
    kind: z.enum(["turn", "title", "compact", "count", "probe"]).optional(),
    agent_id: z.string().optional().describe("the agent's own id of the sub-agent that asked"),
    attempt: z.int().positive().optional(),
    retry_of: z.string().optional().describe("the failed request with the same body"),
    offset: Offset,
  }),
  "model.first": z.strictObject({
    request_id: z.string(),
    ms: z.number().nonnegative().describe("the time to the first byte of the answer"),
    offset: Offset,
  }),
  "model.ended": z.strictObject({
    request_id: z.string(),
    model: z.string().optional(),
    usage: Usage.optional(),
    usage_source: z.enum(["measured", "reported", "estimated"]).optional(),
    error: EventError.optional(),
    wire: z.string().optional(),
    provider: z.string().optional(),
    status: z.int().optional().describe("the HTTP status of the answer"),
    stop_reason: z.string().optional(),
    response_id: z.string().optional().describe("the provider's id of the answer"),
    ttft_ms: z.number().nonnegative().optional(),
    duration_ms: z.number().nonnegative().optional(),
    bytes_in: z.int().nonnegative().optional(),
    bytes_out: z.int().nonnegative().optional(),
    served_by: z.enum(["provider", "cassette", "fallback"]).optional(),
    rate: z
      .strictObject({ remaining: z.int().optional(), reset: z.iso.datetime().optional() })
      .optional()
      .describe("the provider's rate limit"),
    price: z
      .strictObject({
        table: z.enum(["own", "genai-prices", "unknown", "plan", "cassette"]),
        version: z.string().optional(),
      })
      .optional()
      .describe(
        "the table that the cost was computed from; `unknown` if no table has the model; `plan` if a plan pays: the cost is then the price of the request without the plan; `cassette` if a recording answered, at no cost",
      ),
    offset: Offset,
  }),
};

export const BudgetMeasure = z.enum(["usd", "tokens", "requests", "minutes"]);
export type BudgetMeasure = z.infer<typeof BudgetMeasure>;

export const BudgetAction = z.enum(["ask", "pause", "stop"]);
export type BudgetAction = z.infer<typeof BudgetAction>;

/** A budget that is used up. */
export const BUDGET_DATA = {
  "budget.reached": z.strictObject({
    scope: z.enum(["session", "workspace"]),
    measure: BudgetMeasure,
    limit: z.number().describe("the allowed amount, with all grants so far"),
    amount: z.number().describe("the limit of the setting; the reply `once` allows as much again"),
    spent: z.number(),
    unpriced: z
      .int()
      .positive()
      .optional()
      .describe("model requests without a known price; a budget in dollars counts as reached then"),
    action: BudgetAction,
    permission_id: z.string().optional().describe("of `ask`: the request that follows"),
    at_start: z.literal(true).optional().describe("the agent has not got the turn's message yet"),
    offset: Offset,
  }),
};

export const RetryBudget = z.strictObject({
  tries: z.int().min(1).max(100).default(4),
  backoffMs: z.int().min(0).max(600_000).default(250),
  untilReset: z
    .boolean()
    .optional()
    .describe("a provider's limit with a known reset is waited for, however long, and is no try"),
});
export type RetryBudget = z.infer<typeof RetryBudget>;

/** The limits of a session, for its whole life. */
export const Budget = z
  .strictObject({
    usd: z.number().positive().max(1_000_000).optional(),
    tokens: z
      .int()
      .min(1)
      .optional()
      .describe("input, output and cache writes; reads from a cache do not count"),
    requests: z.int().min(1).optional().describe("requests to the model"),
    minutes: z
      .number()
      .positive()
      .max(5_256_000)
      .optional()
      .describe("the working time of turns; waiting does not count"),
    on: BudgetAction.optional().describe(
      "when a limit is reached: ask for more (the default), pause the session, or stop the turn (the default of unattended sessions)",
    ),
  })
  .refine(({ on: _on, ...limits }) => Object.values(limits).some((limit) => limit !== undefined), {
    message: "a budget needs usd, tokens, requests or minutes",
  });
export type Budget = z.infer<typeof Budget>;

/** The most that a led agent may ask its model for in any minute. */
export const PerMinute = z
  .strictObject({
    requests: z.int().min(1).max(1_000_000).optional().describe("requests to the model"),
    tokens: z.int().min(1).optional().describe("input, output and cache writes of the answers so far"),
  })
  .refine(({ requests, tokens }) => requests !== undefined || tokens !== undefined, {
    message: "a limit by the minute needs requests or tokens",
  });
export type PerMinute = z.infer<typeof PerMinute>;
