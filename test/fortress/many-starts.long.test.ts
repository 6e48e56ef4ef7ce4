import { readdir } from "node:fs/promises";
import { expect, it } from "vitest";
import { describeFortress, runInside, serveAs } from "./fortress-bench.ts";

const SESSIONS = 64;

describeFortress("sandboxes that start together", (user) => {
  it(
    `all ${SESSIONS} start with 2,048 descriptors for the server, each with a network of its own`,
    { timeout: 300_000 },
    async () => {
      const server = await serveAs(user, { prefix: ["prlimit", "--nofile=2048:2048", "--"] });
      const ids = Array.from({ length: SESSIONS }, (_, index) => `s${index}`);
      for (const id of ids) await server.client.sessions.create(id, { agent: "scripted", sandbox: "bwrap" });
      const results = await Promise.all(
        ids.map((id) =>
          // A background process keeps the network: the kernel reuses the number of a namespace that is gone.
          runInside(
            server,
            id,
            `sleep 300 >/dev/null 2>&1 & echo ${id}; readlink /proc/self/ns/net >&2`,
          ).catch((error: unknown) => error),
        ),
      );
      const failed = results.filter((result) => result instanceof Error).map(String);
      expect(failed).toEqual([]);
      const said = results as Awaited<ReturnType<typeof runInside>>[];
      expect(said.map(({ stdout }) => stdout)).toEqual(ids.map((id) => `${id}\n`));
      expect(new Set(said.map(({ stderr }) => stderr)).size).toBe(SESSIONS);
      const open = await readdir(`/proc/${server.pid}/fd`);
      expect(open.length).toBeLessThan(2_048);
    },
  );
});
