export {
  createCredentialDesk,
  type CredentialDesk,
  type CredentialDeskOptions,
} from "./anthropic/credential-desk.ts";
export { createMcpRelay, type McpRelay, type McpRelayOptions } from "./anthropic/mcp-relay.ts";
export { readWebhookKey, webhookKeyFile } from "./anthropic/webhooks/secret.ts";
export { createWebhooks, type Webhooks, type WebhooksOptions } from "./anthropic/webhooks/webhooks.ts";
export { RESERVED_OWNERS } from "./auth.ts";
export { type App, type AppOptions, createApp } from "./app.ts";
export type { Framing } from "./chunk.ts";
export { type Logger, type LogLine, stderrLogger } from "./logger.ts";
export { NDJSON_SETTINGS, type NdjsonSettings } from "./ndjson/settings.ts";
export { OWN_ADDRESSES } from "./origin.ts";
export { toOpenApi } from "./openapi.ts";
export { operations } from "./operations.ts";
export { type Listening, listen, type ListenOptions } from "./server.ts";
export { EventStreams, type StreamRequest } from "./sse.ts";
