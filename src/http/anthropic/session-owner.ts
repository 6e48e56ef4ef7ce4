import type { Catalog } from "../../catalog/port.ts";
import type { SessionBody } from "../../dialects/anthropic/session.ts";
import type { Shelves } from "./shelves.ts";

export interface OwnedSession {
  readonly owner: string;
  readonly body: SessionBody;
}

/** A session of this dialect with whose it is, for those who come with no key of an owner's. */
export async function findOwned(
  { catalog, shelves }: { catalog: Catalog; shelves: Shelves },
  session: string,
): Promise<OwnedSession | undefined> {
  // The log has one session of a name, whatever the shelves hold.
  const [owner] = await catalog.ownersOf(shelves.sessions.kind, session);
  const found = owner === undefined ? undefined : await shelves.sessions.find(owner, session);
  return found && owner !== undefined ? { owner, body: found.body } : undefined;
}
