import { z } from "zod";
import type { Document } from "../../catalog/port.ts";
import {
  CreateEnvironment,
  createEnvironmentBody,
  type EnvironmentBody,
  toEnvironment,
  UpdateEnvironment,
  updateEnvironmentBody,
} from "../../dialects/anthropic/resources/environment.ts";
import { toTimestamp } from "../../dialects/anthropic/resources/stored.ts";
import { createId } from "./ids.ts";
import * as params from "./query.ts";
import type { Route } from "./route.ts";
import type { AnthropicServices } from "./services.ts";
import { toList } from "./shelf.ts";

const ListEnvironments = z.object({
  limit: params.limitOf(20),
  page: params.page,
  include_archived: params.flag,
});

/** A name belongs to one environment at a time; archiving gives it up. */
export function mountEnvironments(route: Route, { catalog, shelves }: AnthropicServices): void {
  const { environments } = shelves;
  const { kind } = environments;

  route("POST", "/environments", { body: CreateEnvironment }, async ({ owner, body: given }) => {
    const body = createEnvironmentBody(given);
    const id = createId("environment");
    const [made] = await catalog.write(owner, [{ op: "create", kind, id, body, uniqueKey: body.name }]);
    return toEnvironment(made as Document<EnvironmentBody>);
  });

  route("GET", "/environments", { query: ListEnvironments }, async ({ owner, query }) =>
    toList(await environments.page(owner, query, { archived: query.include_archived }), toEnvironment),
  );

  route("GET", "/environments/:id", {}, async ({ owner, param }) =>
    toEnvironment(await environments.get(owner, param("id"))),
  );

  route("POST", "/environments/:id", { body: UpdateEnvironment }, async ({ owner, body: given, param }) => {
    const updated = await environments.update(owner, param("id"), ({ body: stored }) => {
      const body = updateEnvironmentBody(stored, given);
      return { replace: { body, uniqueKey: body.name } };
    });
    return toEnvironment(updated);
  });

  route("POST", "/environments/:id/archive", {}, async ({ owner, param }) => {
    const archived = await environments.update(owner, param("id"), ({ body }) => {
      if (body.archived_at !== null) return undefined;
      const archived_at = toTimestamp(Date.now());
      return { replace: { body: { ...body, archived_at }, archived: true, uniqueKey: null } };
    });
    return toEnvironment(archived);
  });

  route("DELETE", "/environments/:id", {}, async ({ owner, param }) => {
    const { id } = await environments.get(owner, param("id"));
    await catalog.write(owner, [{ op: "remove", kind, id }]);
    return { id, type: "environment_deleted" };
  });
}
