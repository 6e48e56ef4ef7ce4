import { z } from "zod";
import type { Change, Document } from "../../catalog/port.ts";
import { SluiceError } from "../../contract/index.ts";
import type { FileBody } from "../../dialects/anthropic/resources/file.ts";
import { refuse } from "../../dialects/anthropic/resources/refusal.ts";
import {
  FileResourceParams,
  type ResourceParams,
  type SessionResource,
  UPLOADS,
} from "../../dialects/anthropic/resources/session-resource.ts";
import { toTimestamp } from "../../dialects/anthropic/resources/stored.ts";
import { readContent, toNewFile } from "./files.ts";
import { createId } from "./ids.ts";
import { type Labels, madeOnce } from "./made-once.ts";
import * as params from "./query.ts";
import { readPage } from "./page.ts";
import { addRepository, checkRepository, renewRepository } from "./repositories.ts";
import { removedOnce } from "./resend.ts";
import type { Route } from "./route.ts";
import type { AnthropicServices } from "./services.ts";
import { readOpenRecord, readRecord } from "./session-record.ts";

const ListResources = z.object({ limit: params.limitOf(20), page: params.page });
const UpdateResource = z.object({ authorization_token: z.string().min(1) });

export function mountSessionResources(route: Route, services: AnthropicServices): void {
  const { engine, shelves } = services;

  route("POST", "/sessions/:id/resources", { body: FileResourceParams }, (call) => {
    const { owner, body: said, param } = call;
    const make = async (labels: Labels): Promise<SessionResource> => {
      const { session } = await readOpenRecord(services, owner, param("id"));
      await mountResources.check(services, owner, [said]);
      return addFileResource(services, owner, { session, resource: said, labels });
    };
    const tell = async (copy: Document<FileBody>): Promise<SessionResource> => {
      const { body } = await readRecord(services, owner, param("id"));
      const added = body.resources.find((one) => one.type === "file" && one.file_id === copy.id);
      if (added) return added;
      throw noResource(copy.id);
    };
    return madeOnce(services, call, { shelf: shelves.files, said, make, tell });
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
      await renewRepository(services, owner, { session, resource, token: given.authorization_token });
      const change = (all: Resources): Resources =>
        all.map((one) => (one.id === resource.id ? updated : one));
      await rewrite(services, owner, session, { change });
      return updated;
    },
  );

  route("DELETE", "/sessions/:id/resources/:resource", {}, ({ c, owner, param }) =>
    removedOnce(c, { id: param("resource"), type: "session_resource_deleted" }, async () => {
      const { session, body } = await readOpenRecord(services, owner, param("id"));
      const resource = find(body.resources, param("resource"));
      const files = await engine.files(session);
      await files.remove(resource.mount_path, { recursive: true }).catch(() => {});
      const { kind } = shelves.files;
      const isKept = resource.type === "file" && (await shelves.files.find(owner, resource.file_id));
      const also = isKept ? [{ op: "remove", kind, id: isKept.id } as const] : [];
      const without = (all: Resources): Resources => all.filter(({ id }) => id !== resource.id);
      await rewrite(services, owner, session, { change: without, also });
    }),
  );
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

  /** `place` is its number among those that the session is given when it is made. */
  async add(
    services: AnthropicServices,
    owner: string,
    { session, resource, place }: { session: string; resource: ResourceParams; place: number },
  ): Promise<void> {
    if (resource.type === "file") {
      await addFileResource(services, owner, { session, resource });
      return;
    }
    const added = await addRepository(services, owner, { session, resource, place });
    await rewrite(services, owner, session, { change: (all) => [...all, added] });
  },
};

/** The session has its own copy: what becomes of the uploaded file is nothing to it. */
async function addFileResource(
  services: AnthropicServices,
  owner: string,
  { session, resource, labels }: { session: string; resource: FileResourceParams; labels?: Labels },
): Promise<SessionResource> {
  const { catalog, engine, shelves } = services;
  const { body } = await shelves.files.get(owner, resource.file_id);
  const content = await readContent(catalog, body);
  const copy = toNewFile({
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
  await rewrite(services, owner, session, { change: (all) => [...all, added], also });
  return added;
}

type Resources = readonly SessionResource[];

async function rewrite(
  { shelves }: AnthropicServices,
  owner: string,
  session: string,
  { change, also = [] }: { change: (resources: Resources) => Resources; also?: readonly Change[] },
): Promise<void> {
  await shelves.sessions.update(owner, session, ({ body }) => ({
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
