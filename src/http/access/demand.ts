import type { Context } from "hono";
import { SluiceError } from "../../contract/index.ts";
import type { AppEnv } from "../context.ts";
import { type Access, isWorkspace, permits, type RouteScope } from "./access.ts";

/** Fails where the token of the request does not permit this. */
export function demandScope(c: Context<AppEnv>, scope: RouteScope): Access {
  const access = c.get("access");
  if (scope === "open" || permits(access, scope)) return access;
  throw new SluiceError(
    "permission_denied",
    `This token has the scope ${access.scope}, and ${c.req.method} ${c.req.path} needs ${scope}. Use another token (sluice token create --scope ${scope}).`,
    { scope: access.scope, needs: scope },
  );
}

/** Fails for a token of one session: `things`, such as webhooks, belong to a workspace. */
export function refuseSessionToken({ session }: Access, things: string): void {
  if (session === undefined) return;
  const detail = `A token of one session manages no ${things}. Use one without a session.`;
  throw new SluiceError("permission_denied", detail);
}

/** Fails for a token of a workspace or of one session: this concerns the whole server. */
export function demandServerWide(c: Context<AppEnv>): void {
  const { isOperator, tenant, session } = c.get("access");
  if (isOperator || (!isWorkspace(tenant) && session === undefined)) return;
  const detail = `${c.req.method} ${c.req.path} concerns the whole server, which this token does not reach.`;
  throw new SluiceError("permission_denied", detail);
}
