import { createCatalog, type Catalog } from "../../../src/catalog/index.ts";
import { type CreatedWebhook, type CreateWebhook } from "../../../src/contract/index.ts";
import { createApp, createWebhooks, listen, type LogLine, type Webhooks } from "../../../src/http/index.ts";
import { openEngine, type TestEngine } from "../../support/engine.ts";

export const OPERATOR = "the-server's-own";

export interface WebhookBench {
  readonly test: TestEngine;
  readonly catalog: Catalog;
  readonly lines: LogLine[];
  readonly webhooks: Webhooks;
  /** A request, by default with the server's own token. */
  call(method: string, path: string, options?: { json?: unknown; token?: string }): Promise<Response>;
  create(webhook: CreateWebhook, token?: string): Promise<CreatedWebhook>;
  /** Ends the courier and begins a new one, as a restart does. */
  reopen(between?: () => Promise<void>): Promise<void>;
  close(): Promise<void>;
}

/** The real app with its courier, on a real engine and catalog, with two workspaces. */
export async function openWebhooks(
  options: { allowedHosts?: readonly string[]; failures?: number; urls?: readonly string[] } = {},
): Promise<WebhookBench> {
  const lines: LogLine[] = [];
  let webhooks: Webhooks | undefined;
  const test = await openEngine({ onCommit: (session, events) => webhooks?.committed(session, events) });
  const catalog = createCatalog({ folder: test.folder });
  const open = (): Webhooks =>
    createWebhooks({
      log: test.log,
      catalog,
      allowedHosts: options.allowedHosts,
      urls: options.urls ?? [],
      key: `whsec_${Buffer.alloc(32, 7).toString("base64")}`,
      metadataOf: async (id) => (await test.engine.spec(id)).metadata,
      patience: { firstMs: 5, mostMs: 20, failures: options.failures ?? 4, timeoutMs: 5_000 },
      logger: (line) => lines.push(line),
    });
  const serve = async (): Promise<Awaited<ReturnType<typeof listen>>> => {
    webhooks = open();
    const app = createApp({
      engine: test.engine,
      token: OPERATOR,
      catalog,
      webhooks,
      workspaces: { "key-of-a": "a", "key-of-b": "b" },
      version: "1.2.3",
      logger: (line) => lines.push(line),
    });
    return listen({ app, host: "127.0.0.1", port: 0 });
  };
  let server = await serve();
  const call: WebhookBench["call"] = (method, path, { json, token = OPERATOR } = {}) =>
    fetch(server.url + path, {
      method,
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      ...(json !== undefined && { body: JSON.stringify(json) }),
    });
  const end = async (): Promise<void> => {
    await server.close();
    await webhooks?.close();
    webhooks = undefined;
  };
  return {
    test,
    catalog,
    lines,
    get webhooks() {
      if (!webhooks) throw new Error("no courier is running");
      return webhooks;
    },
    call,
    async create(webhook, token) {
      const response = await call("POST", "/v1/webhooks", { json: webhook, ...(token && { token }) });
      if (!response.ok) throw new Error(await response.text());
      return (await response.json()) as CreatedWebhook;
    },
    async reopen(between) {
      await end();
      await between?.();
      server = await serve();
    },
    async close() {
      await end();
      await catalog.close();
      await test.close();
    },
  };
}
