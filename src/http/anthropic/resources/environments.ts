import { SluiceError } from "../../../contract/index.ts";
import {
  createEnvironmentBody,
  type Environment,
  type EnvironmentBody,
  toEnvironment,
  updateEnvironmentBody,
} from "../../../dialects/anthropic/resources/environment.ts";
import { refuse } from "../../../dialects/anthropic/resources/resource.ts";
import { refuseUnknownHosts } from "../../../sessions/private-hosts.ts";
import { toArchived, toList } from "../collections.ts";
import { createId } from "../dialect.ts";
import { type Labels, createOnce, removeOnce } from "../idempotency.ts";
import { environmentOperations } from "../operations/agents.ts";
import type { Route, SharedServices, TenantScope } from "../route.ts";
import { forgetSession } from "../sessions/record.ts";
import { assertReachable } from "../tenant-network.ts";

/** Names are unique among environments that are not archived. */
export function mountEnvironments(route: Route, services: SharedServices): void {
  const { environments } = services.collections;

  route(environmentOperations.anthropicCreateEnvironment, (call) => {
    const { tenant, body: input } = call;
    const create = async (labels: Labels): Promise<Environment> => {
      const body = createEnvironmentBody(input);
      assertHosts(tenant, body);
      const id = createId("environment");
      const document = { id, body, labels, uniqueKey: body.name };
      return toEnvironment(await environments.create(tenant, document));
    };
    return createOnce(call, { collection: environments, input, create, toAnswer: toEnvironment });
  });

  route(environmentOperations.anthropicListEnvironments, async ({ tenant, query }) =>
    toList(await environments.page(tenant, query, { archived: query.include_archived }), toEnvironment),
  );

  route(environmentOperations.anthropicGetEnvironment, async ({ tenant, param }) =>
    toEnvironment(await environments.get(tenant, param("id"))),
  );

  route(environmentOperations.anthropicUpdateEnvironment, async ({ tenant, body: given, param }) => {
    const updated = await environments.update(tenant, param("id"), ({ body: stored }) => {
      const body = updateEnvironmentBody(stored, given);
      if (given.config) assertHosts(tenant, body);
      return { replace: { body, uniqueKey: body.name } };
    });
    return toEnvironment(updated);
  });

  route(environmentOperations.anthropicArchiveEnvironment, async ({ tenant, param }) => {
    const id = param("id");
    const archived = await environments.update(tenant, id, ({ body }) =>
      toArchived(body, { uniqueKey: null }),
    );
    return toEnvironment(archived);
  });

  route(environmentOperations.anthropicDeleteEnvironment, ({ c, scope, tenant, param }) =>
    removeOnce(c, { id: param("id"), type: "environment_deleted" }, async () => {
      const { id } = await environments.get(tenant, param("id"));
      const session = await findSessionIn(scope, id);
      if (session !== undefined)
        throw refuse(
          `The session ${session} uses the environment. Delete the environment's sessions first, or archive it: its sessions continue, and no new one starts in it.`,
        );
      await environments.remove(tenant, id);
    }),
  );
}

/** Refuses an environment whose hosts no sandbox can reach, before a session uses it. */
function assertHosts(tenant: string, { config }: EnvironmentBody): void {
  if (config.type !== "cloud" || config.networking.type !== "limited") return;
  try {
    refuseUnknownHosts({ network: { allow: [...config.networking.allowed_hosts] } });
  } catch (error) {
    throw error instanceof SluiceError ? refuse(`config.networking.allowed_hosts: ${error.message}`) : error;
  }
  assertReachable.environment(tenant, config);
}

/** A session of this environment. Records of sessions that other dialects have deleted are removed on the way. */
async function findSessionIn(scope: TenantScope, environment_id: string): Promise<string | undefined> {
  const query = { labels: { environment_id }, archived: true, limit: 1 };
  for (;;) {
    const [session] = await scope.collections.sessions.list(scope.tenant, query);
    if (!session || session.body.making) return session?.id;
    if (await scope.engine.log.find(session.id)) return session.id;
    await forgetSession(scope, session.id);
  }
}
