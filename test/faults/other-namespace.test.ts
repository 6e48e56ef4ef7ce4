import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync } from "node:fs";
import { request, type IncomingMessage } from "node:http";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { createClient, type SluiceClient } from "../../src/client/index.ts";
import { ended, printed, Workbench } from "../cli/workbench.ts";
import { ofType, script } from "../support/engine.ts";

const UNSHARE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child=SIGKILL"];
const canUnshare = spawnSync("unshare", [...UNSHARE.slice(1), "true"]).status === 0;
const BIN = join(import.meta.dirname, "../../bin/sluice");

if (!canUnshare) {
  // Where the whole suite has to run, a missing program is a failure.
  it.runIf(process.env.CI === "true")("unshare --pid works here", () => expect(canUnshare).toBe(true));
}

/** As a container with the same data folder is: the same kernel, other pids. */
describe.skipIf(!canUnshare)(
  "a server in another pid namespace (needs unshare and the right to use it)",
  () => {
    const bench = new Workbench();
    afterAll(() => bench.close());

    const serve = async (
      before: readonly string[],
    ): Promise<{ url: string; client: SluiceClient; kill: () => Promise<void> }> => {
      const argv = [...before, BIN, "serve", "--port", "0", "--no-token", "--sandbox", "local"];
      const child = bench.start([], { argv });
      const end = ended(child);
      const url = (await printed(child, /\n/)).trim().split(" ").at(-1) ?? "";
      const kill = async (): Promise<void> => {
        child.kill("SIGKILL");
        await end;
      };
      return { url, client: createClient({ url }), kill };
    };

    it("keeps its sessions from another server, which takes them over after a kill", async () => {
      const owner = await serve(UNSHARE);
      await owner.client.sessions.create("s", { agent: "scripted" });
      await owner.client.sendMessage("s", script({ ask: { shell: "true" } }, { say: "done" }));
      const first = await untilWaiting(owner.client);

      // Its start looks for sessions whose owner is no more.
      const other = await serve([]);
      expect(await answer(other.client.sendMessage("s", "me too"))).toBe("session_busy");
      expect(await answer(other.client.sessions.delete("s"))).toBe("session_busy");
      await owner.client.replyPermission("s", first, { reply: "once" });
      const events = [];
      for await (const event of owner.client.subscribe("s", { extensions: true })) {
        events.push(event);
        if (event.type === "turn.ended") break;
      }
      expect(ofType(events, "process.started")).toHaveLength(1);
      expect(ofType(events, "turn.ended").map(({ data }) => data.status)).toEqual(["completed"]);

      await owner.client.sendMessage("s", script({ ask: { shell: "true" } }, { say: "done" }));
      await untilWaiting(owner.client);
      await owner.kill();
      await expect.poll(() => answer(other.client.interrupt("s")), { timeout: 30_000 }).toBe("done");
      await other.client.sessions.delete("s");
      expect(readdirSync(join(bench.data, "owners"))).toHaveLength(1);
      await other.kill();
    });

    it("keeps an upload in flight from another server, which removes it after a kill", async () => {
      const folder = join(bench.data, "uploads");
      const owner = await serve(UNSHARE);
      await owner.client.sessions.create("u", { agent: "scripted" });
      const upload = beginUpload(owner.url, "u");
      await expect.poll(() => draftsIn(folder), { timeout: 30_000 }).toHaveLength(1);
      const other = await serve([]);
      await other.client.sessions.list();
      expect(draftsIn(folder)).toHaveLength(1);
      expect(await upload.finish()).toBe(200);
      expect(draftsIn(folder)).toEqual([]);

      const cut = beginUpload(owner.url, "u");
      await expect.poll(() => draftsIn(folder), { timeout: 30_000 }).toHaveLength(1);
      await owner.kill();
      await cut.finish().catch(() => {});
      await other.kill();
      expect(draftsIn(folder)).toHaveLength(1);
      const next = await serve([]);
      await expect.poll(() => draftsIn(folder), { timeout: 30_000 }).toEqual([]);
      await next.client.sessions.delete("u");
      await next.kill();
    });
  },
);

/** The first half of a body; the second one comes when it is asked for. */
function beginUpload(url: string, session: string): { finish: () => Promise<number | undefined> } {
  const sent = request(`${url}/v1/fs/file?session=${session}&path=big.txt`, { method: "PUT" });
  const answered = once(sent, "response") as Promise<[IncomingMessage]>;
  answered.catch(() => {});
  sent.on("error", () => {});
  sent.write("first half, ");
  return {
    finish: async () => {
      sent.end("second half");
      const [response] = await answered;
      response.resume();
      return response.statusCode;
    },
  };
}

function draftsIn(folder: string): string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ name }) => name);
}

function answer(task: Promise<unknown>): Promise<string> {
  return task.then(
    () => "done",
    (error: { code?: string }) => error.code ?? String(error),
  );
}

async function untilWaiting(client: SluiceClient): Promise<string> {
  await expect
    .poll(async () => (await client.sessions.get("s")).pendingActions.length, { timeout: 30_000 })
    .toBe(1);
  return (await client.sessions.get("s")).pendingActions[0]?.id ?? "";
}
