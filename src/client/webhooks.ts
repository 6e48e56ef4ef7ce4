import type {
  CreatedWebhook,
  CreateWebhook,
  UpdateWebhook,
  WebhookDelivery,
  WebhookInfo,
} from "../contract/index.ts";
import type { CallOptions, Transport } from "./transport.ts";

/** The webhooks of a server. */
export interface WebhooksClient {
  /** The secret is in this answer alone. */
  create(webhook: CreateWebhook, options?: CallOptions): Promise<CreatedWebhook>;
  /** Newest first. */
  list(options?: CallOptions): AsyncGenerator<WebhookInfo, void>;
  get(id: string, options?: CallOptions): Promise<WebhookInfo>;
  update(id: string, change: UpdateWebhook, options?: CallOptions): Promise<WebhookInfo>;
  delete(id: string, options?: CallOptions): Promise<void>;
  /** The newest attempts since the server's start, newest first. */
  deliveries(id: string, options?: CallOptions): Promise<WebhookDelivery[]>;
  /** Sends one test message. */
  test(id: string, options?: CallOptions): Promise<WebhookDelivery>;
}

export function createWebhooksClient(transport: Transport): WebhooksClient {
  return {
    create: (webhook, options) =>
      transport.json("/v1/webhooks", { ...options, method: "POST", json: webhook }),
    async *list(options) {
      let cursor: string | undefined;
      do {
        const page: { webhooks: WebhookInfo[]; next?: string } = await transport.json("/v1/webhooks", {
          ...options,
          query: { cursor },
        });
        yield* page.webhooks;
        cursor = page.next;
      } while (cursor !== undefined);
    },
    get: (id, options) => transport.json(pathOf(id), { ...options }),
    update: (id, change, options) =>
      transport.json(pathOf(id), { ...options, method: "PATCH", json: change }),
    async delete(id, options) {
      await transport.done(pathOf(id), { ...options, method: "DELETE" });
    },
    async deliveries(id, options) {
      const page: { deliveries: WebhookDelivery[] } = await transport.json(pathOf(id, "/deliveries"), {
        ...options,
      });
      return page.deliveries;
    },
    test: (id, options) => transport.json(pathOf(id, "/test"), { ...options, method: "POST" }),
  };
}

function pathOf(id: string, rest = ""): string {
  return `/v1/webhooks/${encodeURIComponent(id)}${rest}`;
}
