import { z } from "zod";
import { Metadata } from "../resources/resource.ts";
import { Checkout, STATUSES } from "../resources/session.ts";
import { SessionAgent, time } from "./agents.ts";

const resource = { id: z.string(), mount_path: z.string(), created_at: time, updated_at: time };

export const SessionResource = z.discriminatedUnion("type", [
  z.object({ type: z.literal("file"), file_id: z.string(), ...resource }),
  z.object({
    type: z.literal("github_repository"),
    url: z.string(),
    checkout: Checkout.nullish(),
    ...resource,
  }),
]);

const Usage = z.object({
  input_tokens: z.int().optional(),
  output_tokens: z.int().optional(),
  cache_read_input_tokens: z.int().optional(),
  cache_creation: z
    .object({
      ephemeral_5m_input_tokens: z.int().optional(),
      ephemeral_1h_input_tokens: z.int().optional(),
    })
    .optional(),
  list_cost: z.object({ amount: z.string(), currency: z.string() }).nullish(),
});

const shared = {
  status: z.enum(STATUSES),
  stats: z.object({ duration_seconds: z.number().optional() }),
  usage: Usage.nullable(),
  created_at: time,
  updated_at: time,
  archived_at: time.nullable(),
};

export const Session = z.object({
  id: z.string(),
  type: z.literal("session"),
  agent: SessionAgent,
  environment_id: z.string(),
  title: z.string().nullable(),
  metadata: Metadata,
  resources: z.array(SessionResource),
  vault_ids: z.array(z.string()),
  outcome_evaluations: z.array(z.unknown()).max(0),
  budget: z.null(),
  deployment_id: z.string().nullable(),
  ...shared,
});

export const SessionList = z.object({
  data: z.array(Session),
  next_page: z.string().nullable().describe("the cursor of the next page, for `page`"),
  prev_page: z.string().nullable().describe("the cursor of the previous page, for `page`"),
});

export const Thread = z.object({
  id: z.string(),
  type: z.literal("session_thread"),
  session_id: z.string(),
  parent_thread_id: z.string().nullable(),
  agent: SessionAgent,
  workflow_run_id: z.string().nullable(),
  ...shared,
});

export const CallbackRun = z.object({
  type: z.literal("callback_run"),
  run_id: z.string(),
  secret: z.string().describe("signs the reports of the run"),
});

export const CallbackReceipt = z.object({
  type: z.literal("callback"),
  accepted: z.int(),
  duplicate: z.boolean(),
  ignored: z.boolean().describe("whether another run has taken over"),
});
