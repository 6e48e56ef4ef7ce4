import { z } from "zod";
import { SessionId } from "./ids.ts";

/** The permissions of a token. Each scope includes those before it. */
export const Scope = z.enum(["read", "answer", "control", "admin"]);
export type Scope = z.infer<typeof Scope>;

export const CreateToken = z.strictObject({
  scope: Scope.describe(
    "read: reads · answer: also answers requests of agents · control: also runs and changes sessions · admin: also tokens, credentials and metrics",
  ),
  session: z.string().min(1).optional().describe("reaches this session alone"),
  workspace: z
    .string()
    .regex(/^[\w.-]{1,64}$/, "a workspace is named by letters, digits, '.', '_' and '-'")
    .optional()
    .describe("reaches the sessions and resources of this workspace alone"),
  name: z.string().min(1).max(128).optional().describe("for people; events name the token by its id"),
  expiresIn: z.int().min(1).max(3_153_600_000).optional().describe("in seconds; for ever if absent"),
});
export type CreateToken = z.infer<typeof CreateToken>;

/** A token without its secret, which nobody can read again. */
export const TokenInfo = z.strictObject({
  id: z.string(),
  scope: Scope,
  session: z.string().optional(),
  workspace: z.string().optional(),
  name: z.string().optional(),
  createdAt: z.int().describe("milliseconds since 1970"),
  expiresAt: z.int().optional(),
});
export type TokenInfo = z.infer<typeof TokenInfo>;

export const CreatedToken = z.strictObject({
  ...TokenInfo.shape,
  token: z.string().describe("shown once; send it as `Authorization: Bearer <token>`"),
});
export type CreatedToken = z.infer<typeof CreatedToken>;

/** The types of a webhook's reports. */
export const WebhookType = z.enum(["ask.opened", "turn.ended", "session.ended", "budget.reached"]);
export type WebhookType = z.infer<typeof WebhookType>;

/** The dialect of a webhook's payload. */
export const WebhookDialect = z.enum(["universal", "anthropic", "ag-ui", "ndjson", "content", "lifecycle"]);
export type WebhookDialect = z.infer<typeof WebhookDialect>;

const webhookUrl = z
  .url({ protocol: /^https?$/, error: "expected an http or https address" })
  .max(2048)
  .refine(
    (text) => !/^[a-z]+:\/\/[^/?#]*@/i.test(text),
    "the address must not contain a user name or a password",
  );
const webhookTypes = z.array(WebhookType).min(1).max(WebhookType.options.length);
const webhookFilters = {
  session: SessionId.describe("events of this session alone"),
  agent: z.string().min(1).max(128).describe("events of sessions with this agent alone"),
  metadata: z
    .record(z.string().min(1).max(128), z.string().max(512))
    .describe("events of sessions whose metadata has all these values"),
};
const webhookName = z.string().min(1).max(128);

export const CreateWebhook = z.strictObject({
  url: webhookUrl.describe("gets a POST for each event"),
  types: webhookTypes.optional().describe("all types if absent"),
  as: WebhookDialect.default("universal").describe("the dialect of the payload"),
  session: webhookFilters.session.optional(),
  agent: webhookFilters.agent.optional(),
  metadata: webhookFilters.metadata.optional(),
  workspace: z
    .string()
    .regex(/^[\w.-]{1,64}$/, "a workspace is named by letters, digits, '.', '_' and '-'")
    .optional()
    .describe("the workspace whose sessions it reports; that of the token if absent"),
  name: webhookName.optional().describe("for people"),
});
export type CreateWebhook = z.input<typeof CreateWebhook>;

export const UpdateWebhook = z.strictObject({
  url: webhookUrl.optional(),
  types: webhookTypes.optional(),
  as: WebhookDialect.optional(),
  session: webhookFilters.session.nullable().optional().describe("null removes the filter"),
  agent: webhookFilters.agent.nullable().optional(),
  metadata: webhookFilters.metadata.nullable().optional(),
  name: webhookName.nullable().optional(),
  enabled: z.boolean().optional().describe("true continues where a disabled webhook stopped"),
});
export type UpdateWebhook = z.infer<typeof UpdateWebhook>;

/** A webhook without its secret. */
export const WebhookInfo = z.strictObject({
  id: z.string(),
  url: z.string(),
  types: webhookTypes,
  as: WebhookDialect,
  session: z.string().optional(),
  agent: z.string().optional(),
  metadata: z.record(z.string(), z.string()).optional(),
  workspace: z.string().optional(),
  name: z.string().optional(),
  createdAt: z.int().describe("milliseconds since 1970"),
  enabled: z.boolean(),
  disabledReason: z.string().optional().describe("why the server has disabled it"),
  failures: z.int().describe("failed attempts since the last accepted one"),
  problem: z.string().optional().describe("of the last failed attempt"),
  nextAttemptAt: z.int().optional(),
});
export type WebhookInfo = z.infer<typeof WebhookInfo>;

export const CreatedWebhook = z.strictObject({
  ...WebhookInfo.shape,
  secret: z.string().describe("`whsec_` and base64, shown once: the receiver verifies signatures with it"),
});
export type CreatedWebhook = z.infer<typeof CreatedWebhook>;

/** One attempt to deliver a message. */
export const WebhookDelivery = z.strictObject({
  id: z.string().describe("the `webhook-id`, the same in every attempt for one event"),
  type: z.string(),
  session: z.string().optional(),
  at: z.int(),
  delivered: z.boolean(),
  problem: z.string().optional(),
});
export type WebhookDelivery = z.infer<typeof WebhookDelivery>;
