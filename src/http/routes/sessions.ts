import { SessionId } from "../../contract/index.ts";
import { parseWith } from "../../dialects/universal/index.ts";
import type { Mount } from "../mount.ts";
import { operations } from "../operations.ts";
import type { Services } from "../services.ts";
import { toTurnHeader } from "./messages.ts";

export function mountSessions(mount: Mount, { engine }: Services): void {
  mount(operations.listSessions, async ({ c, query: { cursor, limit } }) =>
    c.json(await engine.list({ limit, ...(cursor && { cursor }) })),
  );

  mount(operations.createSession, async ({ c, body, param }) => {
    const id = parseWith(SessionId, param("id"), "path");
    const { nativeSessionId } = await engine.create(id, body);
    return c.json({ healthy: true, ...(nativeSessionId !== null && { nativeSessionId }) });
  });

  mount(operations.getSession, async ({ c, param }) => c.json(await engine.info(param("id"))));

  mount(operations.deleteSession, async ({ c, param }) => {
    await engine.remove(param("id"));
    return c.body(null, 204);
  });

  mount(operations.interruptSession, async ({ c, param }) => {
    const { turnId, commandId } = await engine.interrupt(param("id"));
    return c.body(null, 204, {
      ...(turnId === undefined ? {} : toTurnHeader(turnId)),
      ...(commandId === undefined ? {} : { "sluice-command-id": commandId }),
    });
  });

  mount(operations.terminateSession, async ({ c, query, param }) => {
    await engine.terminate(param("id"), { destroy: query.destroy ?? false });
    return c.body(null, 204);
  });
}
