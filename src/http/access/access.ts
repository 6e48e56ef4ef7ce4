import { Scope } from "../../contract/index.ts";

/** The tenant of the server's own token. */
export const DEFAULT_TENANT = "default";

/** The tenant of the server's own documents; no key opens them. */
export const SYSTEM_TENANT = "sluice";

/** Names that no workspace may have: they stand for the server's operator and for the server itself. */
export const RESERVED_TENANTS: ReadonlySet<string> = new Set([DEFAULT_TENANT, SYSTEM_TENANT]);

/** A workspace is a tenant of the keys file. For a workspace, the server connects to hosts of the internet alone. */
export function isWorkspace(tenant: string): boolean {
  return tenant !== DEFAULT_TENANT;
}

/** The rights of the sender of a request. */
export interface Access {
  /** The tenant whose sessions and documents it reaches. */
  readonly tenant: string;
  readonly scope: Scope;
  /** The server's own token, or any client of a server without one: reaches the sessions of every tenant. */
  readonly isOperator?: true;
  /** The only session that it reaches. */
  readonly session?: string | undefined;
  /** The id of a stored token, which may be revoked while a response is open. Events name their author by it. */
  readonly token?: string | undefined;
}

export const OPERATOR: Access = { tenant: DEFAULT_TENANT, scope: "admin", isOperator: true };

/** A client without a token, for routes that need none: it reaches no session. */
export const NOBODY: Access = { tenant: DEFAULT_TENANT, scope: "read", session: "" };

/** The scope of a route; `open` needs no token, or the route has a check of its own. */
export type RouteScope = Scope | "open";

export function permits(access: Access, scope: Scope): boolean {
  return Scope.options.indexOf(access.scope) >= Scope.options.indexOf(scope);
}
