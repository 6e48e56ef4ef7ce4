import type { Context } from "hono";
import { z } from "zod";
import {
  CreatedWebhook,
  CreateWebhook,
  SluiceError,
  UpdateWebhook,
  WebhookDelivery,
  WebhookInfo,
} from "../../contract/index.ts";
import { whole } from "../../dialects/universal/index.ts";
import { DEFAULT_TENANT } from "../access/access.ts";
import { refuseSessionToken } from "../access/demand.ts";
import type { AppEnv } from "../context.ts";
import { defineOperations, done, json, type Mount } from "../operation.ts";
import type { Services } from "../services.ts";
import type { Webhooks } from "./webhooks.ts";

const WebhookPage = z.strictObject({
  webhooks: z.array(WebhookInfo),
  next: z.string().optional().describe("the cursor of the next page; absent on the last one"),
});

const DeliveryPage = z.strictObject({ deliveries: z.array(WebhookDelivery) });

const about = { scope: "admin", tag: "webhooks" } as const;

export const webhookOperations = defineOperations({
  listWebhooks: {
    ...about,
    method: "GET",
    path: "/v1/webhooks",
    summary: "The webhooks, newest first, without their secrets",
    query: z.object({
      cursor: whole(1).optional().describe("`next` of the previous page"),
      limit: whole(1, 1000).default(100),
    }),
    answer: json("A page of webhooks", WebhookPage),
    errors: ["invalid_request"],
  },
  createWebhook: {
    ...about,
    method: "POST",
    path: "/v1/webhooks",
    summary: "Registers an address that gets the events from now on, signed by Standard Webhooks",
    body: { kind: "json", schema: CreateWebhook as z.ZodType<CreateWebhook> },
    answer: json("The webhook with its secret, shown this once", CreatedWebhook),
    errors: ["invalid_request", "too_large"],
  },
  getWebhook: {
    ...about,
    method: "GET",
    path: "/v1/webhooks/{id}",
    summary: "A webhook with its state",
    answer: json("The webhook", WebhookInfo),
    errors: ["not_found"],
  },
  updateWebhook: {
    ...about,
    method: "PATCH",
    path: "/v1/webhooks/{id}",
    summary: "Changes the given fields; `enabled: true` continues where a disabled webhook stopped",
    body: { kind: "json", schema: UpdateWebhook },
    answer: json("The changed webhook", WebhookInfo),
    errors: ["invalid_request", "not_found"],
  },
  deleteWebhook: {
    ...about,
    method: "DELETE",
    path: "/v1/webhooks/{id}",
    summary: "Removes a webhook; what it has not delivered is never sent",
    answer: done("The webhook is removed"),
    errors: ["not_found"],
  },
  listWebhookDeliveries: {
    ...about,
    method: "GET",
    path: "/v1/webhooks/{id}/deliveries",
    summary: "The newest attempts since the server's start, at most 100, newest first",
    answer: json("The attempts", DeliveryPage),
    errors: ["not_found"],
  },
  testWebhook: {
    ...about,
    method: "POST",
    path: "/v1/webhooks/{id}/test",
    summary: "Sends one message of the type `webhook.test` and answers with the attempt",
    answer: json("The attempt", WebhookDelivery),
    errors: ["not_found"],
  },
});

/** The webhooks of the server. An admin of a workspace sees and makes those of its workspace alone. */
export function mountWebhooks(mount: Mount, { webhooks }: Services): void {
  mount(webhookOperations.listWebhooks, async ({ c, query: { cursor, limit } }) =>
    c.json(await demand(webhooks).store.list({ after: cursor, limit, ...reachOf(c) })),
  );

  mount(webhookOperations.createWebhook, async ({ c, body }) => {
    const { workspace = body.workspace ?? DEFAULT_TENANT } = reachOf(c);
    if (body.workspace !== undefined && body.workspace !== workspace)
      throw new SluiceError("permission_denied", "A token makes no webhook of another workspace.");
    const made = await demand(webhooks).store.create({ ...body, workspace });
    await demand(webhooks).refresh();
    return c.json(made);
  });

  mount(webhookOperations.getWebhook, async ({ c, param }) =>
    c.json(await demand(webhooks).store.get(param("id"), reachOf(c))),
  );

  mount(webhookOperations.updateWebhook, async ({ c, body, param }) => {
    const changed = await demand(webhooks).store.update(param("id"), body, reachOf(c));
    await demand(webhooks).refresh();
    return c.json(changed);
  });

  mount(webhookOperations.deleteWebhook, async ({ c, param }) => {
    const { store, refresh } = demand(webhooks);
    // Its deliveries end first: none of them may store a cursor afterwards.
    await store.update(param("id"), { enabled: false }, reachOf(c));
    await refresh();
    await store.remove(param("id"), reachOf(c));
  });

  mount(webhookOperations.listWebhookDeliveries, async ({ c, param }) => {
    const { id } = await demand(webhooks).store.get(param("id"), reachOf(c));
    return c.json({ deliveries: demand(webhooks).deliveries(id) });
  });

  mount(webhookOperations.testWebhook, async ({ c, param }) => {
    const { id } = await demand(webhooks).store.get(param("id"), reachOf(c));
    return c.json(await demand(webhooks).test(id));
  });
}

/** The only workspace whose webhooks the request reaches; all of them for the operator. */
function reachOf(c: Context<AppEnv>): { workspace?: string } {
  const access = c.get("access");
  refuseSessionToken(access, "webhooks");
  return access.isOperator ? {} : { workspace: access.tenant };
}

function demand(webhooks: Webhooks | undefined): Webhooks {
  if (webhooks) return webhooks;
  throw new SluiceError("not_found", "This server sends no webhooks.");
}
