import { z } from "zod";
import type { Change, Document } from "../../../catalog/port.ts";
import { SluiceError } from "../../../contract/index.ts";
import type { FileBody } from "../../../dialects/anthropic/resources/file.ts";
import { refuse, toTimestamp } from "../../../dialects/anthropic/resources/resource.ts";
import {
  FileResourceParams,
  type ResourceParams,
  type SessionResource,
  UPLOADS,
} from "../../../dialects/anthropic/resources/session.ts";
import { createId } from "../ids.ts";
import { readPage } from "../page.ts";
import * as params from "../query.ts";
import { type Labels, createOnce, removeOnce } from "../idempotency.ts";
import { readContent, createFileDocument } from "../resources/files.ts";
import type { AnthropicServices, Route } from "../route.ts";
import { readOpenRecord, readRecord } from "./record.ts";
import { addRepository, checkRepository, renewRepository } from "./repositories.ts";

const ListResources = z.object({ limit: params.limitOf(20), page: params.page });
const UpdateResource = z.object({ authorization_token: z.string().min(1) });

export function mountSessionResources(route: Route, services: AnthropicServices): void {
  const { engine, collections } = services;

  route("POST", "/sessions/:id/resources", { scope: "control", body: FileResourceParams }, (call) => {
    const { tenant, body: input, param } = call;
    const create = async (labels: Labels): Promise<SessionResource> => {
      const { session } = await readOpenRecord(services, tenant, param("id"));
      await sessionResources.check(services, tenant, [input]);
      return addFileResource(services, tenant, { session, resource: input, labels });
    };
    const toAnswer = async (copy: Document<FileBody>): Promise<SessionResource> => {
      const { body } = await readRecord(services, tenant, param("id"));
      const added = body.resources.find((one) => one.type === "file" && one.file_id === copy.id);
      if (added) return added;
      throw noResource(copy.id);
    };
    return createOnce(services, call, { collection: collections.files, input, create, toAnswer });
  });

  route(
    "GET",
    "/sessions/:id/resources",
    { scope: "read", query: ListResources },
    async ({ tenant, query, param }) => {
      const { session, body } = await readRecord(services, tenant, param("id"));
      const placed = body.resources.map((resource, at) => ({ resource, at }));
      const page = await readPage(
        { list: `resources ${session}`, order: "asc", ...query },
        async ({ order, after, limit }) => {
          const inOrder = order === "asc" ? placed : placed.toReversed();
          const isAfterCursor = (at: number): boolean =>
            after === undefined || (order === "asc" ? at > after : at < after);
          return inOrder.filter(({ at }) => isAfterCursor(at)).slice(0, limit);
        },
        ({ at }) => at,
      );
      return { data: page.items.map(({ resource }) => resource), next_page: page.next_page };
    },
  );

  route("GET", "/sessions/:id/resources/:resource", { scope: "read" }, async ({ tenant, param }) => {
    const { body } = await readRecord(services, tenant, param("id"));
    return find(body.resources, param("resource"));
  });

  route(
    "POST",
    "/sessions/:id/resources/:resource",
    { scope: "control", body: UpdateResource },
    async ({ tenant, body: given, param }) => {
      const { session, body } = await readOpenRecord(services, tenant, param("id"));
      const resource = find(body.resources, param("resource"));
      if (resource.type !== "github_repository")
        throw refuse("authorization_token: only a github_repository has one.");
      const updated = { ...resource, updated_at: toTimestamp(Date.now()) };
      await renewRepository(services, tenant, { session, resource, token: given.authorization_token });
      const change = (all: Resources): Resources =>
        all.map((one) => (one.id === resource.id ? updated : one));
      await rewrite(services, tenant, session, { change });
      return updated;
    },
  );

  route("DELETE", "/sessions/:id/resources/:resource", { scope: "control" }, ({ c, tenant, param }) =>
    removeOnce(c, { id: param("resource"), type: "session_resource_deleted" }, async () => {
      const { session, body } = await readOpenRecord(services, tenant, param("id"));
      const resource = find(body.resources, param("resource"));
      const files = await engine.files(session);
      await files.remove(resource.mount_path, { recursive: true }).catch(() => {});
      const { kind } = collections.files;
      const copy = resource.type === "file" && (await collections.files.find(tenant, resource.file_id));
      const also = copy ? [{ op: "remove", kind, id: copy.id } as const] : [];
      const without = (all: Resources): Resources => all.filter(({ id }) => id !== resource.id);
      await rewrite(services, tenant, session, { change: without, also });
    }),
  );
}

/** The files and repositories of a new session: checked before it is created, then copied into its sandbox. */
export const sessionResources = {
  async check(
    services: AnthropicServices,
    tenant: string,
    resources: readonly ResourceParams[],
  ): Promise<readonly ResourceParams[]> {
    for (const resource of resources) {
      if (resource.type !== "file") {
        checkRepository(tenant, resource);
        continue;
      }
      const { body } = await services.collections.files.get(tenant, resource.file_id);
      await readContent(services.catalog, body);
    }
    return resources;
  },

  /** `index` is the position among the resources of the request. */
  async add(
    services: AnthropicServices,
    tenant: string,
    { session, resource, index }: { session: string; resource: ResourceParams; index: number },
  ): Promise<void> {
    if (resource.type === "file") {
      await addFileResource(services, tenant, { session, resource });
      return;
    }
    const added = await addRepository(services, tenant, { session, resource, index });
    await rewrite(services, tenant, session, { change: (all) => [...all, added] });
  },
};

/** The session gets its own copy, which outlives the uploaded file. */
async function addFileResource(
  services: AnthropicServices,
  tenant: string,
  { session, resource, labels }: { session: string; resource: FileResourceParams; labels?: Labels },
): Promise<SessionResource> {
  const { catalog, engine, collections } = services;
  const { body } = await collections.files.get(tenant, resource.file_id);
  const content = await readContent(catalog, body);
  const copy = createFileDocument({
    filename: body.filename,
    mimeType: body.mime_type,
    content: { hash: body.content, size: body.size_bytes },
    scope: session,
  });
  const mount_path = resource.mount_path ?? `${UPLOADS}/${copy.id}`;
  const bytes = new Uint8Array(await new Response(content.stream()).arrayBuffer());
  await (await engine.files(session)).write(mount_path, bytes);
  const now = toTimestamp(Date.now());
  const added: SessionResource = {
    id: createId("resource"),
    type: "file",
    file_id: copy.id,
    mount_path,
    created_at: now,
    updated_at: now,
  };
  const also = [{ ...copy, ...(labels && { labels }) }];
  await rewrite(services, tenant, session, { change: (all) => [...all, added], also });
  return added;
}

type Resources = readonly SessionResource[];

async function rewrite(
  { collections }: AnthropicServices,
  tenant: string,
  session: string,
  { change, also = [] }: { change: (resources: Resources) => Resources; also?: readonly Change[] },
): Promise<void> {
  await collections.sessions.update(tenant, session, ({ body }) => ({
    replace: { body: { ...body, resources: change(body.resources) } },
    also,
  }));
}

function find(resources: Resources, id: string): SessionResource {
  const found = resources.find((resource) => resource.id === id);
  if (found) return found;
  throw noResource(id);
}

function noResource(id: string): SluiceError {
  return new SluiceError("not_found", `The session has no resource ${id}.`);
}
