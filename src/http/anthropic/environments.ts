import { z } from "zod";
import type { Document } from "../../catalog/port.ts";
import { SluiceError } from "../../contract/index.ts";
import {
  CreateEnvironment,
  createEnvironmentBody,
  type Environment,
  type EnvironmentBody,
  toEnvironment,
  UpdateEnvironment,
  updateEnvironmentBody,
} from "../../dialects/anthropic/resources/environment.ts";
import { refuse } from "../../dialects/anthropic/resources/refusal.ts";
import { toTimestamp } from "../../dialects/anthropic/resources/stored.ts";
import { refuseUnknownHosts } from "../../sessions/hosts.ts";
import { createId } from "./ids.ts";
import { type Labels, madeOnce } from "./made-once.ts";
import * as params from "./query.ts";
import { assertReach } from "./reach.ts";
import { removedOnce } from "./resend.ts";
import type { Route } from "./route.ts";
import type { AnthropicServices } from "./services.ts";
import { forgetSession } from "./session-record.ts";
import { toList } from "./shelf.ts";

const ListEnvironments = z.object({
  limit: params.limitOf(20),
  page: params.page,
  include_archived: params.flag,
});

/** A name belongs to one environment at a time; archiving gives it up. */
export function mountEnvironments(route: Route, services: AnthropicServices): void {
  const { catalog, shelves } = services;
  const { environments } = shelves;
  const { kind } = environments;

  route("POST", "/environments", { body: CreateEnvironment }, (call) => {
    const { owner, body: said } = call;
    const make = async (labels: Labels): Promise<Environment> => {
      const body = createEnvironmentBody(said);
      assertHosts(owner, body);
      const id = createId("environment");
      const [made] = await catalog.write(owner, [
        { op: "create", kind, id, body, labels, uniqueKey: body.name },
      ]);
      return toEnvironment(made as Document<EnvironmentBody>);
    };
    return madeOnce(services, call, { shelf: environments, said, make, tell: toEnvironment });
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
      if (given.config) assertHosts(owner, body);
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

  route("DELETE", "/environments/:id", {}, ({ c, owner, param }) =>
    removedOnce(c, { id: param("id"), type: "environment_deleted" }, async () => {
      const { id } = await environments.get(owner, param("id"));
      const user = await findUser(services, owner, id);
      if (user !== undefined)
        throw refuse(
          `The environment is that of the session ${user}. Delete its sessions first, or archive the environment: they go on then, and no other begins in it.`,
        );
      await catalog.write(owner, [{ op: "remove", kind, id }]);
    }),
  );
}

/** What no sandbox could be opened to is refused here, and not when a session begins. */
function assertHosts(owner: string, { config }: EnvironmentBody): void {
  if (config.type !== "cloud" || config.networking.type !== "limited") return;
  try {
    refuseUnknownHosts({ network: { allow: [...config.networking.allowed_hosts] } });
  } catch (error) {
    throw error instanceof SluiceError ? refuse(`config.networking.allowed_hosts: ${error.message}`) : error;
  }
  assertReach.environment(owner, config);
}

/** A session of this environment; the record of one that was deleted elsewhere is forgotten on the way. */
async function findUser(
  services: AnthropicServices,
  owner: string,
  environment_id: string,
): Promise<string | undefined> {
  const query = { labels: { environment_id }, archived: true, limit: 1 };
  for (;;) {
    const [user] = await services.shelves.sessions.list(owner, query);
    if (!user || user.body.making) return user?.id;
    if (await services.engine.log.find(user.id)) return user.id;
    await forgetSession(services, owner, user.id);
  }
}
