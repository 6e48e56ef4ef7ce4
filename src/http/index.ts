export {
  createCredentialBroker,
  createCredentialBroker as createCredentialDesk,
  type CredentialBroker,
  type CredentialBroker as CredentialDesk,
  type CredentialBrokerOptions,
  type CredentialBrokerOptions as CredentialDeskOptions,
} from "./anthropic/vaults/credential-broker.ts";
export { createMcpRelay, type McpRelay, type McpRelayOptions } from "./anthropic/vaults/mcp-relay.ts";
export { readWebhookKey, webhookKeyFile } from "./anthropic/webhooks/signature.ts";
export { createWebhooks, type Webhooks, type WebhooksOptions } from "./anthropic/webhooks/webhooks.ts";
export { RESERVED_TENANTS, RESERVED_TENANTS as RESERVED_OWNERS } from "./auth.ts";
export { type App, type AppOptions, createApp } from "./app.ts";
export type { Framing } from "./stream/chunk.ts";
export { type Logger, type LogLine, stderrLogger } from "./context.ts";
export { NDJSON_SETTINGS, type NdjsonSettings } from "./ndjson/dialect.ts";
export { OWN_ADDRESSES } from "./origin.ts";
export { operations, toOpenApi } from "./universal/openapi.ts";
export { type Listening, listen, type ListenOptions } from "./server.ts";
export { EventStreams, type StreamRequest } from "./stream/sse.ts";
