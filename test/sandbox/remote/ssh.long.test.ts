import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import type { SluiceEvent } from "../../../src/contract/index.ts";
import { createSshProvider } from "../../../src/sandbox/ssh/provider.ts";
import { script } from "../../support/engine.ts";
import { expectLawful } from "../../support/laws.ts";
import { startServer, type TestServer } from "../../support/server.ts";
import { NO_SSHD, startSshd, type Sshd } from "./sshd.ts";
import { makeFolder, onCleanup } from "./workbench.ts";

const LINES = 400;

async function open(): Promise<{ sshd: Sshd; server: TestServer }> {
  const sshd = await startSshd();
  const server = await startServer({ env: sshd.env });
  onCleanup(() => server.close());
  return { sshd, server };
}

async function untilEnd(server: TestServer, session: string): Promise<SluiceEvent[]> {
  const events: SluiceEvent[] = [];
  for await (const event of server.client.subscribe(session, { extensions: true })) {
    events.push(event);
    if (event.type === "turn.ended") break;
  }
  return events;
}

/** The numbered lines of the agent's shell, joined from its deltas. */
function printed(events: readonly SluiceEvent[]): string[] {
  const deltas = events.filter((event) => event.type === "item.delta").map((event) => event.data.delta);
  return deltas.join("").match(/line \d+ /g) ?? [];
}

const COUNT = script(
  { say: "starting" },
  { shell: `i=0; while [ $i -lt ${LINES} ]; do echo "line $i "; i=$((i+1)); sleep 0.01; done` },
  { write: { path: "made.txt", content: "far" } },
  { say: "finished" },
);
const ALL = Array.from({ length: LINES }, (_, n) => `line ${n} `);

describe.skipIf(NO_SSHD !== undefined)(
  `sandboxes by SSH${NO_SSHD ? ` (${NO_SSHD})` : ""}`,
  { timeout: 180_000 },
  () => {
    const strikes: Record<string, (test: { sshd: Sshd; server: TestServer }) => Promise<void>> = {
      "nothing is struck": async () => {},
      "the server is killed": async ({ server }) => {
        await server.kill();
        await server.start();
      },
      "the connection is cut": async ({ sshd }) => sshd.cut(),
      "the machine cannot be reached for a while, and the server is killed": async ({ sshd, server }) => {
        sshd.down(true);
        await server.kill();
        await server.start();
        await sleep(2_000);
        sshd.down(false);
      },
      "the runner is killed": async ({ sshd }) => {
        for (const pid of sshd.runners()) process.kill(pid, "SIGKILL");
      },
    };

    for (const [what, strike] of Object.entries(strikes)) {
      it(`has every line and every input once when ${what}`, async () => {
        const test = await open();
        const { sshd, server } = test;
        await server.client.sessions.create("s", { agent: "scripted", sandbox: sshd.url });
        await server.client.sendMessage("s", COUNT);
        for await (const event of server.client.subscribe("s", { extensions: true })) {
          if (event.type === "item.delta" && event.data.delta.includes("line 50 ")) break;
        }
        await strike(test);
        const events = await untilEnd(server, "s");
        expectLawful(events);
        expect(events.at(-1)?.data).toMatchObject({ status: "completed" });
        expect(printed(events)).toEqual(ALL);
        expect(events.filter((event) => event.type === "input.accepted")).toHaveLength(1);
        expect(events.filter((event) => event.type === "process.started")).toHaveLength(1);
        const ready = events.find((event) => event.type === "sandbox.ready");
        expect(ready?.data).toMatchObject({ provider: sshd.url, isolated: false });
        const made = await server.fetch("/v1/fs/file?session=s&path=made.txt");
        expect(await made.text()).toBe("far");
      });
    }

    it("refuses an unknown machine, another host key, a foreign key and a bad address, and says what to do", async () => {
      const sshd = await startSshd();
      const records = await makeFolder();
      const named = (env: Record<string, string>, url = sshd.url) => {
        const provider = createSshProvider({ records, env: { HOME: records, ...env } });
        return provider.named!(url)!;
      };
      const empty = join(records, "empty");
      await writeFile(empty, "");
      await expect(named({ ...sshd.env, SLUICE_SSH_KNOWN_HOSTS: empty }).check!({})).rejects.toMatchObject({
        code: "permission_denied",
        message: expect.stringContaining("is not known"),
      });
      const other = join(records, "other");
      const known = await readFile(sshd.env["SLUICE_SSH_KNOWN_HOSTS"]!, "utf8");
      const userKey = (await readFile(join(sshd.folder, "user_key.pub"), "utf8")).split(" ")[1]!;
      await writeFile(other, `${known.split(" ").slice(0, 2).join(" ")} ${userKey}\n`);
      await expect(named({ ...sshd.env, SLUICE_SSH_KNOWN_HOSTS: other }).check!({})).rejects.toMatchObject({
        code: "permission_denied",
        message: expect.stringContaining("another host key"),
      });
      const foreign = join(sshd.folder, "host_key");
      await expect(named({ ...sshd.env, SLUICE_SSH_KEY: foreign }).check!({})).rejects.toMatchObject({
        code: "permission_denied",
        message: expect.stringContaining("accepts no key"),
      });
      for (const bad of [
        "ssh://",
        "ssh:host",
        "ssh://me@host/path",
        "ssh://me:secret@host",
        "ssh://me@ho st",
        "ssh://a@b:99999",
      ])
        expect(() => named(sshd.env, bad), bad).toThrow(expect.objectContaining({ code: "invalid_request" }));
      sshd.down(true);
      await expect(named(sshd.env).check!({})).rejects.toMatchObject({ code: "sandbox_unreachable" });
    });
  },
);
