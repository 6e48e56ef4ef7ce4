export {
  createCredentialBroker,
  createCredentialBroker as createCredentialDesk,
  type CredentialBroker,
  type CredentialBroker as CredentialDesk,
  type CredentialBrokerOptions,
  type CredentialBrokerOptions as CredentialDeskOptions,
} from "./anthropic/vaults/credential-broker.ts";
export { createMcpRelay, type McpRelay, type McpRelayOptions } from "./anthropic/vaults/mcp-relay.ts";
export { readWebhookKey, webhookKeyFile } from "./webhooks/signature.ts";
export { createOtlpExporter, type OtlpExporter, type OtlpOptions } from "./otlp/exporter.ts";
export { type OtlpSettings, readOtlpSettings } from "./otlp/settings.ts";
export { createWebhooks, type Webhooks, type WebhooksOptions } from "./webhooks/webhooks.ts";
export { RESERVED_TENANTS, RESERVED_TENANTS as RESERVED_OWNERS } from "./auth.ts";
export { type App, type AppOptions, createApp } from "./app.ts";
export type { Framing } from "./stream/chunk.ts";
export { type Logger, type LogLine, stderrLogger } from "./context.ts";
export { NDJSON_SETTINGS, type NdjsonSettings } from "./ndjson/dialect.ts";
export { OWN_ADDRESSES } from "./origin.ts";
export { toOpenApi } from "./openapi/document.ts";
export { operations } from "./universal/openapi.ts";
export { type Listening, listen, type ListenOptions } from "./server.ts";
export { EventStreams, type StreamRequest } from "./stream/sse.ts";
