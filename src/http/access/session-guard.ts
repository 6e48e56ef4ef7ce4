import type { Catalog } from "../../catalog/port.ts";
import type { EventLog, ListPage, SessionRow } from "../../log/port.ts";
import { sessionNotFound } from "../../log/refusals.ts";
import { type Access, DEFAULT_TENANT } from "./access.ts";

/** The kind of the documents by which the Anthropic dialect knew the tenant of a session before the log did. */
const SESSION_DOCUMENT = "session";

/** Decides which sessions one request reaches. */
export class SessionGuard {
  readonly #log: EventLog;
  readonly #catalog: Catalog | undefined;
  readonly #access: Access;
  readonly #permitted = new Set<string>();

  constructor(log: EventLog, catalog: Catalog | undefined, access: Access) {
    this.#log = log;
    this.#catalog = catalog;
    this.#access = access;
  }

  /** Narrows a list in the log; `isOwn` decides about each row. */
  get listed(): Pick<ListPage, "tenant"> {
    const { tenant } = this.#access;
    return tenant === DEFAULT_TENANT ? {} : { tenant };
  }

  /** Fails for a session of another tenant as for one that does not exist. */
  async permit(session: string): Promise<void> {
    if (this.#permitted.has(session)) return;
    const row = await this.#log.find(session);
    if (!row || !(await this.isOwn(row))) throw sessionNotFound(session);
    this.#permitted.add(session);
  }

  async isOwn(row: Pick<SessionRow, "id" | "tenant">): Promise<boolean> {
    const { session, tenant } = this.#access;
    if (session !== undefined && session !== row.id) return false;
    return (await findTenant(this.#catalog, row)) === tenant;
  }
}

/** The tenant of a session; the default tenant if its creator named none. */
export async function findTenant(
  catalog: Catalog | undefined,
  { id, tenant }: Pick<SessionRow, "id" | "tenant">,
): Promise<string> {
  if (tenant !== undefined) return tenant;
  const [known] = (await catalog?.tenantsOf(SESSION_DOCUMENT, id)) ?? [];
  return known ?? DEFAULT_TENANT;
}
