import { z } from "zod";
import type { Document } from "../../catalog/port.ts";
import { SluiceError } from "../../contract/index.ts";
import { whole } from "../../dialects/universal/index.ts";
import type { SessionRow } from "../../log/port.ts";
import { defineOperations, done, json, type Mount } from "../operation.ts";
import { CONVERSATION, type NdjsonServices } from "./dialect.ts";
import { type AssetBody, KIND, type MessageBody, toDocumentId } from "./documents.ts";
import * as responses from "./responses.ts";
import { toWire } from "./results.ts";
import { byPath } from "../nodes/owner-rules.ts";

const PageQuery = z.object({
  cursor: whole(0).optional().describe("`next` of the previous page"),
  limit: whole(1, 1000).default(100),
});

export const historyOperations = defineOperations({
  ndjsonConversation: {
    method: "GET",
    path: CONVERSATION,
    scope: "read",
    tag: "ndjson",
    summary: "The messages of a conversation, the oldest first",
    query: PageQuery,
    answer: json("A page of messages", responses.ConversationPage),
    errors: ["invalid_request", "session_not_found"],
  },
  ndjsonDeleteConversation: {
    method: "DELETE",
    path: CONVERSATION,
    scope: "control",
    owner: byPath,
    tag: "ndjson",
    summary: "Removes a conversation with its messages and assets",
    answer: done("The conversation is removed"),
    errors: ["session_not_found"],
  },
  ndjsonAssets: {
    method: "GET",
    path: `${CONVERSATION}/assets`,
    scope: "read",
    tag: "ndjson",
    summary: "The assets that the runs of a conversation wrote back, the oldest first",
    query: PageQuery,
    answer: json("A page of assets", responses.AssetPage),
    errors: ["invalid_request", "session_not_found"],
  },
  ndjsonAsset: {
    method: "GET",
    path: `${CONVERSATION}/assets/{asset}`,
    scope: "read",
    tag: "ndjson",
    summary: "The content of one asset",
    answer: { status: 200, description: "The bytes", mime: "application/octet-stream" },
    errors: ["session_not_found", "file_not_found"],
  },
});

/** The messages of conversations and the assets of their runs. */
export function mountHistory(mount: Mount, services: NdjsonServices): void {
  const { catalog, conversations } = services;

  mount(historyOperations.ndjsonConversation, async ({ engine, c, query, param }) => {
    const tenant = c.get("tenant");
    const row = await readRow({ ...services, engine }, tenant, param("id"));
    const page = { after: query.cursor, limit: query.limit + 1 };
    const found = await conversations.with(tenant, row, (conversation) =>
      conversations.readMessages(tenant, conversation, page),
    );
    return c.json({
      conversation: row.id,
      messages: found.slice(0, query.limit).map(toMessage),
      ...next(found, query),
    });
  });

  mount(historyOperations.ndjsonDeleteConversation, async ({ engine, c, param }) => {
    const row = await readRow({ ...services, engine }, c.get("tenant"), param("id"));
    await engine.remove(row.id);
    await conversations.forget(c.get("tenant"), row.id);
  });

  mount(historyOperations.ndjsonAssets, async ({ engine, c, query, param }) => {
    const tenant = c.get("tenant");
    const row = await readRow({ ...services, engine }, tenant, param("id"));
    const found = await conversations.with(tenant, row, ({ id: parent }) =>
      catalog.list(tenant, {
        kind: KIND.asset,
        parent,
        labels: { state: "written" },
        after: query.cursor,
        limit: query.limit + 1,
      }),
    );
    const assets = found.slice(0, query.limit).map(({ id, body }) => toWire(id, body as AssetBody));
    return c.json({ conversation: row.id, assets, ...next(found, query) });
  });

  mount(historyOperations.ndjsonAsset, async ({ engine, c, param }) => {
    const tenant = c.get("tenant");
    const row = await readRow({ ...services, engine }, tenant, param("id"));
    const found = await conversations.with(tenant, row, () =>
      catalog.find(tenant, KIND.asset, param("asset")),
    );
    const isThere = found?.parent === toDocumentId(row.id) && found.labels["state"] === "written";
    const { hash, mime, name } = (isThere ? found.body : {}) as Partial<AssetBody>;
    const content = hash === undefined ? undefined : await catalog.bytes.read(hash);
    if (!content) throw new SluiceError("file_not_found", `There is no asset ${param("asset")}.`);
    return new Response(content.stream(), {
      headers: {
        "content-type": mime ?? "application/octet-stream",
        "content-length": String(content.size),
        // An asset of a run must not become a page of this origin.
        "x-content-type-options": "nosniff",
        "content-security-policy": "sandbox",
        "content-disposition": `attachment; filename="${name}"`,
      },
    });
  });
}

async function readRow(
  { engine, conversations }: NdjsonServices,
  tenant: string,
  id: string,
): Promise<SessionRow> {
  const row = await engine.log.find(id);
  if (row) return row;
  await conversations.forget(tenant, id);
  throw new SluiceError("session_not_found", `There is no conversation ${id}.`, { sessionId: id });
}

function toMessage({ body }: Document<MessageBody>): object {
  const { role, content, turn, ts } = body;
  return { role, content, ...(turn !== undefined && { turn }), ...(ts !== undefined && { ts }) };
}

function next(found: readonly Document[], { limit }: { limit: number }): { next?: number } {
  const last = found[limit - 1];
  return found.length > limit && last ? { next: last.ordinal } : {};
}
