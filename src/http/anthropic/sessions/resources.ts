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
import { readChunks } from "../../body/read.ts";
import { createId } from "../dialect.ts";
import { type Labels, createOnce, removeOnce } from "../idempotency.ts";
import { readPage } from "../page.ts";
import { resourceOperations } from "../operations/sessions.ts";
import { readContent, createFileDocument } from "../resources/files.ts";
import type { Route, SharedServices, TenantScope } from "../route.ts";
import { readOpenRecord, readRecord } from "./record.ts";
import { addRepository, checkRepository, renewRepository } from "./repositories.ts";

export function mountSessionResources(route: Route, services: SharedServices): void {
  const { collections } = services;

  route(resourceOperations.anthropicAddResource, (call) => {
    const { scope, body: input, param } = call;
    const create = async (labels: Labels): Promise<SessionResource> => {
      const { session } = await readOpenRecord(scope, param("id"));
      await sessionResources.check(scope, [input]);
      return addFileResource(scope, { session, resource: input, labels });
    };
    const toAnswer = async (copy: Document<FileBody>): Promise<SessionResource> => {
      const { body } = await readRecord(scope, param("id"));
      const added = body.resources.find((one) => one.type === "file" && one.file_id === copy.id);
      if (added) return added;
      throw noResource(copy.id);
    };
    return createOnce(call, { collection: collections.files, input, create, toAnswer });
  });

  route(resourceOperations.anthropicListResources, async ({ scope, query, param }) => {
    const { session, body } = await readRecord(scope, param("id"));
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
  });

  route(resourceOperations.anthropicGetResource, async ({ scope, param }) => {
    const { body } = await readRecord(scope, param("id"));
    return find(body.resources, param("resource"));
  });

  route(resourceOperations.anthropicUpdateResource, async ({ scope, body: given, param }) => {
    const { session, body } = await readOpenRecord(scope, param("id"));
    const resource = find(body.resources, param("resource"));
    if (resource.type !== "github_repository")
      throw refuse("authorization_token: only a github_repository has one.");
    const updated = { ...resource, updated_at: toTimestamp(Date.now()) };
    await renewRepository(scope, { session, resource, token: given.authorization_token });
    const change = (all: Resources): Resources => all.map((one) => (one.id === resource.id ? updated : one));
    await rewrite(scope, session, { change });
    return updated;
  });

  route(resourceOperations.anthropicDeleteResource, ({ c, scope, tenant, param }) =>
    removeOnce(c, { id: param("resource"), type: "session_resource_deleted" }, async () => {
      const { session, body } = await readOpenRecord(scope, param("id"));
      const resource = find(body.resources, param("resource"));
      const files = await scope.engine.files(session);
      await files.remove(resource.mount_path, { recursive: true }).catch(() => {});
      const { kind } = collections.files;
      const copy = resource.type === "file" && (await collections.files.find(tenant, resource.file_id));
      const also = copy ? [{ op: "remove", kind, id: copy.id } as const] : [];
      const without = (all: Resources): Resources => all.filter(({ id }) => id !== resource.id);
      await rewrite(scope, session, { change: without, also });
    }),
  );
}

/** The files and repositories of a new session: checked before it is created, then copied into its sandbox. */
export const sessionResources = {
  async check(scope: TenantScope, resources: readonly ResourceParams[]): Promise<void> {
    for (const resource of resources) {
      if (resource.type !== "file") {
        checkRepository(scope.tenant, resource);
        continue;
      }
      const { body } = await scope.collections.files.get(scope.tenant, resource.file_id);
      await readContent(scope.catalog, body);
    }
  },

  /** `index` is the position among the resources of the request. */
  async add(
    scope: TenantScope,
    { session, resource, index }: { session: string; resource: ResourceParams; index: number },
  ): Promise<void> {
    if (resource.type === "file") {
      await addFileResource(scope, { session, resource });
      return;
    }
    const added = await addRepository(scope, { session, resource, index });
    await rewrite(scope, session, { change: (all) => [...all, added] });
  },
};

/** The session gets its own copy, which outlives the uploaded file. */
async function addFileResource(
  scope: TenantScope,
  { session, resource, labels }: { session: string; resource: FileResourceParams; labels?: Labels },
): Promise<SessionResource> {
  const { catalog, engine, collections } = scope;
  const { body } = await collections.files.get(scope.tenant, resource.file_id);
  const content = await readContent(catalog, body);
  const copy = createFileDocument({
    filename: body.filename,
    mimeType: body.mime_type,
    content: { hash: body.content, size: body.size_bytes },
    scope: session,
  });
  const mount_path = resource.mount_path ?? `${UPLOADS}/${copy.id}`;
  await (await engine.files(session)).write(mount_path, readChunks(content.stream()));
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
  await rewrite(scope, session, { change: (all) => [...all, added], also });
  return added;
}

type Resources = readonly SessionResource[];

async function rewrite(
  { collections, tenant }: TenantScope,
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
