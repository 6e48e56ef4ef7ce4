import { parseWith, whole } from "../../dialects/universal/index.ts";
import type { Mount } from "../mount.ts";
import { operations } from "../operations.ts";
import type { Services } from "../services.ts";

const Port = whole(1, 65_535);

export function mountSandbox(mount: Mount, { engine }: Services): void {
  mount(operations.pauseSession, async ({ c, param }) => {
    await engine.pause(param("id"));
    return c.body(null, 204);
  });

  mount(operations.resumeSession, async ({ c, param }) => {
    await engine.resume(param("id"));
    return c.body(null, 204);
  });

  mount(operations.runCommand, async ({ c, body, param }) => c.json(await engine.exec(param("id"), body)));

  mount(operations.listShelf, async ({ c, query: { shelf, limit } }) =>
    c.json({ checkpoints: await engine.shelved(shelf, { limit }) }),
  );

  mount(operations.getHost, async ({ c, param }) => {
    const url = await engine.host(param("id"), parseWith(Port, param("port"), "path"));
    return c.json({ url: url.href });
  });

  mount(operations.listCheckpoints, async ({ c, query: { limit }, param }) => {
    const checkpoints = await engine.checkpoints(param("id"), { limit });
    return c.json({ checkpoints });
  });

  mount(operations.createCheckpoint, async ({ c, body, param }) =>
    c.json(await engine.checkpoint(param("id"), body)),
  );

  mount(operations.restoreCheckpoint, async ({ c, body, param }) =>
    c.json(await engine.restore(param("id"), body.checkpoint)),
  );
}
