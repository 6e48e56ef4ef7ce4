import type { MiddlewareHandler } from "hono";
import type { AppEnv } from "../context.ts";
import { toPattern } from "../methods.ts";
import { toNotFound } from "../problem.ts";
import type { OwnerRule } from "../nodes/at-owner.ts";
import type { RouteScope } from "./access.ts";

/** A route and the scope that it needs. */
export interface RouteRow {
  /** `ALL` stands for every method. */
  readonly method: string;
  /** Parameters have the form `:name`, and a last `*` stands for the rest. */
  readonly path: string;
  readonly scope: RouteScope;
  /** Of requests that only the owner of a session can serve; any node serves the others. */
  readonly owner?: OwnerRule | undefined;
}

/** The routes of all dialects with their scopes. Each dialect adds its own when its code is loaded. */
export class RouteTable {
  readonly #rows: RouteRow[] = [];

  get rows(): readonly RouteRow[] {
    return this.#rows;
  }

  add(row: RouteRow): void {
    this.#rows.push(row);
  }

  /** The rows of a path, of any method. */
  of(path: string): RouteRow[] {
    return this.#rows.filter((row) => toPattern(row.path).test(path));
  }
}

/** A route that is not in the table is closed to all but the operator. */
export function closeUnlisted(table: RouteTable): MiddlewareHandler<AppEnv> {
  return async (c, next) => {
    if (c.get("access").isOperator) return next();
    const method = c.req.method === "HEAD" ? "GET" : c.req.method;
    const rows = table.of(c.req.path);
    if (rows.length === 0) throw toNotFound(c);
    if (rows.some((row) => row.method === method || row.method === "ALL")) return next();
    // A known path without this method.
    return c.notFound();
  };
}
