import type { Catalog } from "../../catalog/port.ts";
import { DEFAULT_OWNER } from "../auth.ts";

const KIND = "ag-ui.run";
const KEPT = 10_000;

/** Which session a run is of: clients that come back know only the run. Durable where there is a catalog. */
export class RunIndex {
  readonly #catalog: Catalog | undefined;
  readonly #sessions = new Map<string, string>();

  constructor(catalog: Catalog | undefined) {
    this.#catalog = catalog;
  }

  async remember(runId: string, session: string): Promise<void> {
    this.#keep(runId, session);
    const known = await this.#catalog?.find(DEFAULT_OWNER, KIND, runId);
    const body = { session };
    const change = known
      ? ({ op: "replace", kind: KIND, id: runId, expect: known.revision, body } as const)
      : ({ op: "create", kind: KIND, id: runId, body } as const);
    if ((known?.body as { session?: string } | undefined)?.session !== session)
      await this.#catalog?.write(DEFAULT_OWNER, [change]);
  }

  async find(runId: string): Promise<string | undefined> {
    const near = this.#sessions.get(runId);
    if (near !== undefined) return near;
    const known = await this.#catalog?.find(DEFAULT_OWNER, KIND, runId);
    const session = (known?.body as { session?: string } | undefined)?.session;
    if (session !== undefined) this.#keep(runId, session);
    return session;
  }

  #keep(runId: string, session: string): void {
    this.#sessions.delete(runId);
    this.#sessions.set(runId, session);
    const [oldest] = this.#sessions.size > KEPT ? this.#sessions.keys() : [];
    if (oldest !== undefined) this.#sessions.delete(oldest);
  }
}
