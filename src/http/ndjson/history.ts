import type { Document } from "../../catalog/port.ts";
import { SluiceError } from "../../contract/index.ts";
import type { SessionRow } from "../../log/port.ts";
import type { Mount } from "../mount.ts";
import { ndjsonOperations } from "./operations.ts";
import { type AssetBody, KIND, type MessageBody, toDocumentId } from "./records.ts";
import { toWire } from "./results.ts";
import type { NdjsonServices } from "./services.ts";

/** What conversations have left: their messages, and the assets of their runs. */
export function mountHistory(mount: Mount, services: NdjsonServices): void {
  const { catalog, conversations, engine } = services;

  mount(ndjsonOperations.conversation, async ({ c, query, param }) => {
    const owner = c.get("owner");
    const row = await readRow(services, owner, param("id"));
    const page = { after: query.cursor, limit: query.limit + 1 };
    const found = await conversations.with(owner, row, (conversation) =>
      conversations.readMessages(owner, conversation, page),
    );
    return c.json({
      conversation: row.id,
      messages: found.slice(0, query.limit).map(toMessage),
      ...next(found, query),
    });
  });

  mount(ndjsonOperations.deleteConversation, async ({ c, param }) => {
    const row = await readRow(services, c.get("owner"), param("id"));
    await engine.remove(row.id);
    await conversations.forget(c.get("owner"), row.id);
    return c.body(null, 204);
  });

  mount(ndjsonOperations.assets, async ({ c, query, param }) => {
    const owner = c.get("owner");
    const row = await readRow(services, owner, param("id"));
    const found = await conversations.with(owner, row, ({ id: parent }) =>
      catalog.list(owner, {
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

  mount(ndjsonOperations.asset, async ({ c, param }) => {
    const owner = c.get("owner");
    const row = await readRow(services, owner, param("id"));
    const found = await conversations.with(owner, row, () => catalog.find(owner, KIND.asset, param("asset")));
    const isThere = found?.parent === toDocumentId(row.id) && found.labels["state"] === "written";
    const { hash, mime, name } = (isThere ? found.body : {}) as Partial<AssetBody>;
    const content = hash === undefined ? undefined : await catalog.bytes.read(hash);
    if (!content) throw new SluiceError("file_not_found", `There is no asset ${param("asset")}.`);
    return new Response(content.stream(), {
      headers: {
        "content-type": mime ?? "application/octet-stream",
        "content-length": String(content.size),
        // Whatever a run sent is never a page of this origin.
        "x-content-type-options": "nosniff",
        "content-security-policy": "sandbox",
        "content-disposition": `attachment; filename="${name}"`,
      },
    });
  });
}

async function readRow(
  { engine, conversations }: NdjsonServices,
  owner: string,
  id: string,
): Promise<SessionRow> {
  const row = await engine.log.find(id);
  if (row) return row;
  await conversations.forget(owner, id);
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
