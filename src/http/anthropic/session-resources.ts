import { z } from "zod";
import { SluiceError } from "../../contract/index.ts";
import { refuse } from "../../dialects/anthropic/resources/refusal.ts";
import {
  FileResourceParams,
  type ResourceParams,
  type SessionResource,
  UPLOADS,
} from "../../dialects/anthropic/resources/session-resource.ts";
import { toTimestamp } from "../../dialects/anthropic/resources/stored.ts";
import { addFile, readContent } from "./files.ts";
import { createId } from "./ids.ts";
import * as params from "./query.ts";
import { readPage } from "./page.ts";
import { addRepository, checkRepository, renewRepository } from "./repositories.ts";
import type { Route } from "./route.ts";
import type { AnthropicServices } from "./services.ts";
import { readOpenRecord, readRecord } from "./session-record.ts";

const ListResources = z.object({ limit: params.limitOf(20), page: params.page });
const UpdateResource = z.object({ authorization_token: z.string().min(1) });

export function mountSessionResources(route: Route, services: AnthropicServices): void {
  const { catalog, engine, shelves } = services;

  route("POST", "/sessions/:id/resources", { body: FileResourceParams }, async ({ owner, body, param }) => {
    const { session } = await readOpenRecord(services, owner, param("id"));
    await mountResources.check(services, owner, [body]);
    return mountResources.add(services, owner, { session, resource: body });
  });

  route("GET", "/sessions/:id/resources", { query: ListResources }, async ({ owner, query, param }) => {
    const { session, body } = await readRecord(services, owner, param("id"));
    const placed = body.resources.map((resource, at) => ({ resource, at }));
    const page = await readPage(
      { list: `resources ${session}`, order: "asc", ...query },
      async ({ order, after, limit }) => {
        const inOrder = order === "asc" ? placed : placed.toReversed();
        const isBehind = (at: number): boolean =>
          after === undefined || (order === "asc" ? at > after : at < after);
        return inOrder.filter(({ at }) => isBehind(at)).slice(0, limit);
      },
      ({ at }) => at,
    );
    return { data: page.items.map(({ resource }) => resource), next_page: page.next_page };
  });

  route("GET", "/sessions/:id/resources/:resource", {}, async ({ owner, param }) => {
    const { body } = await readRecord(services, owner, param("id"));
    return find(body.resources, param("resource"));
  });

  route(
    "POST",
    "/sessions/:id/resources/:resource",
    { body: UpdateResource },
    async ({ owner, body: given, param }) => {
      const { session, body } = await readOpenRecord(services, owner, param("id"));
      const resource = find(body.resources, param("resource"));
      if (resource.type !== "github_repository")
        throw refuse("authorization_token: only a github_repository has one.");
      const updated = { ...resource, updated_at: toTimestamp(Date.now()) };
      await renewRepository(services, { session, resource, token: given.authorization_token });
      await rewrite(services, owner, session, (all) =>
        all.map((one) => (one.id === resource.id ? updated : one)),
      );
      return updated;
    },
  );

  route("DELETE", "/sessions/:id/resources/:resource", {}, async ({ owner, param }) => {
    const { session, body } = await readOpenRecord(services, owner, param("id"));
    const resource = find(body.resources, param("resource"));
    const files = await engine.files(session);
    await files.remove(resource.mount_path, { recursive: true }).catch(() => {});
    if (resource.type === "file")
      await catalog.write(owner, [{ op: "remove", kind: shelves.files.kind, id: resource.file_id }]);
    await rewrite(services, owner, session, (all) => all.filter(({ id }) => id !== resource.id));
    return { id: resource.id, type: "session_resource_deleted" };
  });
}

/** What a session is given to work on: looked at before anything happens, then put where the agent finds it. */
export const mountResources = {
  async check(
    services: AnthropicServices,
    owner: string,
    resources: readonly ResourceParams[],
  ): Promise<readonly ResourceParams[]> {
    for (const resource of resources) {
      if (resource.type !== "file") {
        checkRepository(owner, resource);
        continue;
      }
      const { body } = await services.shelves.files.get(owner, resource.file_id);
      await readContent(services.catalog, body);
    }
    return resources;
  },

  async add(
    services: AnthropicServices,
    owner: string,
    { session, resource }: { session: string; resource: ResourceParams },
  ): Promise<SessionResource> {
    const added =
      resource.type === "file"
        ? await addFileResource(services, owner, { session, resource })
        : await addRepository(services, { session, resource });
    await rewrite(services, owner, session, (all) => [...all, added]);
    return added;
  },
};

/** The session has its own copy: what becomes of the uploaded file is nothing to it. */
async function addFileResource(
  services: AnthropicServices,
  owner: string,
  { session, resource }: { session: string; resource: FileResourceParams },
): Promise<SessionResource> {
  const { catalog, engine, shelves } = services;
  const { body } = await shelves.files.get(owner, resource.file_id);
  const content = await readContent(catalog, body);
  const copy = await addFile(catalog, owner, {
    filename: body.filename,
    mimeType: body.mime_type,
    content: { hash: body.content, size: body.size_bytes },
    scope: session,
  });
  const mount_path = resource.mount_path ?? `${UPLOADS}/${copy.id}`;
  try {
    const bytes = new Uint8Array(await new Response(content.stream()).arrayBuffer());
    await (await engine.files(session)).write(mount_path, bytes);
  } catch (error) {
    await catalog.write(owner, [{ op: "remove", kind: shelves.files.kind, id: copy.id }]);
    throw error;
  }
  const now = toTimestamp(Date.now());
  return {
    id: createId("resource"),
    type: "file",
    file_id: copy.id,
    mount_path,
    created_at: now,
    updated_at: now,
  };
}

async function rewrite(
  { shelves }: AnthropicServices,
  owner: string,
  session: string,
  change: (resources: readonly SessionResource[]) => readonly SessionResource[],
): Promise<void> {
  await shelves.sessions.update(owner, session, ({ body }) => ({
    replace: { body: { ...body, resources: change(body.resources) } },
  }));
}

function find(resources: readonly SessionResource[], id: string): SessionResource {
  const found = resources.find((resource) => resource.id === id);
  if (found) return found;
  throw new SluiceError("not_found", `The session has no resource ${id}.`);
}
