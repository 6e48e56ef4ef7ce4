import type { Catalog } from "../../catalog/port.ts";
import { DEFAULT_OWNER } from "../auth.ts";

const KEPT = 10_000;

/** Which session something is of, by the client's own name for it. Durable where there is a catalog. */
export class SessionIndex {
  readonly #catalog: Catalog | undefined;
  readonly #kind: "ag-ui.run" | "ag-ui.thread";
  readonly #sessions = new Map<string, string>();

  constructor(kind: "ag-ui.run" | "ag-ui.thread", catalog: Catalog | undefined) {
    this.#kind = kind;
    this.#catalog = catalog;
  }

  async remember(name: string, session: string): Promise<void> {
    this.#keep(name, session);
    const known = await this.#catalog?.find(DEFAULT_OWNER, this.#kind, name);
    const kind = this.#kind;
    const body = { session };
    const change = known
      ? ({ op: "replace", kind, id: name, expect: known.revision, body } as const)
      : ({ op: "create", kind, id: name, body } as const);
    if ((known?.body as { session?: string } | undefined)?.session !== session)
      await this.#catalog?.write(DEFAULT_OWNER, [change]);
  }

  async find(name: string): Promise<string | undefined> {
    const near = this.#sessions.get(name);
    if (near !== undefined) return near;
    const known = await this.#catalog?.find(DEFAULT_OWNER, this.#kind, name);
    const session = (known?.body as { session?: string } | undefined)?.session;
    if (session !== undefined) this.#keep(name, session);
    return session;
  }

  #keep(name: string, session: string): void {
    this.#sessions.delete(name);
    this.#sessions.set(name, session);
    const [oldest] = this.#sessions.size > KEPT ? this.#sessions.keys() : [];
    if (oldest !== undefined) this.#sessions.delete(oldest);
  }
}
