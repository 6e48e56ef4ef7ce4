import { execFile } from "node:child_process";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import type { SluiceEvent } from "../../../src/contract/index.ts";
import { script } from "../../support/engine.ts";
import { assistantTexts, expectLawful } from "../../support/laws.ts";
import { startServer, type TestServer } from "../../support/server.ts";
import { NO_SSHD, startSshd, type Sshd } from "./sshd.ts";
import { makeFolder, onCleanup } from "./workbench.ts";

const BIN = resolve(import.meta.dirname, "../../../bin/sluice");
const sluice = (...args: string[]): Promise<{ stdout: string; stderr: string }> =>
  promisify(execFile)(BIN, args, { env: { ...process.env, NO_COLOR: "1" } });

async function open(): Promise<{ sshd: Sshd; server: TestServer }> {
  const sshd = await startSshd();
  const server = await startServer({ env: sshd.env });
  onCleanup(() => server.close());
  return { sshd, server };
}

async function runTurn({ client }: TestServer, ...steps: unknown[]): Promise<void> {
  for await (const event of client.messageStream("s", script(...steps))) void event;
}

async function readAll({ client }: TestServer): Promise<SluiceEvent[]> {
  return client.getEvents("s", { extensions: true });
}

const sandboxesOf = (server: TestServer): Promise<string[]> =>
  readdir(join(server.data, "sandboxes")).catch(() => []);

describe.skipIf(NO_SSHD !== undefined)(
  `sluice move${NO_SSHD ? ` (${NO_SSHD})` : ""}`,
  { timeout: 300_000 },
  () => {
    it("takes a session from bwrap to another machine and on to local, and keeps its log, files and memory", async () => {
      const { sshd, server } = await open();
      await server.client.sessions.create("s", { agent: "scripted", sandbox: "bwrap" });
      await runTurn(server, { write: { path: "a.txt", content: "made in bwrap" } });
      const where = ["--server", server.url, "--token", server.token];
      const far = await sluice("move", "s", "--to", sshd.url, ...where);
      expect(far.stdout).toBe(`Moved s to ${sshd.url}\n`);
      expect(await sandboxesOf(server)).toEqual([]);
      await runTurn(
        server,
        { shell: "cat a.txt; echo $PWD" },
        { write: { path: "b.txt", content: "made far" } },
        { say: "$history" },
      );
      expect(assistantTexts(await readAll(server)).at(-1)).toContain("made in bwrap");
      await server.kill();
      await server.start();
      await sluice("move", "s", "--to", "local", ...where);
      expect(await server.client.fs.read("s", "b.txt").then((bytes) => Buffer.from(bytes).toString())).toBe(
        "made far",
      );
      // The sandbox on the other machine is gone, with its files.
      expect(await readdir(join(sshd.home, ".sluice/runner/sandboxes")).catch(() => [])).toEqual([]);
      await runTurn(server, { say: "$history" });
      const events = await readAll(server);
      expectLawful(events);
      expect(assistantTexts(events).at(-1)).toContain("made far");
      const moves = events.filter(({ type }) => type === "sandbox.connected");
      expect(moves.map(({ data }) => (data as { provider: string }).provider)).toEqual([sshd.url, "local"]);
    });

    it("kill -9 in the middle leaves the session in its sandbox, and a folder of this machine stays as it is", async () => {
      const { sshd, server } = await open();
      const folder = join(await makeFolder(), "project");
      await mkdir(folder);
      await writeFile(join(folder, "own.txt"), "mine");
      await server.client.sessions.create("s", { agent: "scripted", sandbox: "local", directory: folder });
      await runTurn(server, { write: { path: "a.txt", content: "first" } });
      await runTurn(server, { shell: "head -c 60000000 /dev/urandom > big.bin" });
      const moving = server.client.move("s", sshd.url).catch((error: unknown) => error);
      for await (const event of server.client.subscribe("s", { extensions: true }))
        if (event.type === "sandbox.moving") break;
      await server.kill();
      await moving;
      await server.start();
      expect(await server.client.sessions.get("s")).toMatchObject({ sandbox: "local", directory: folder });
      await runTurn(server, { say: "$history" });
      expect(assistantTexts(await readAll(server)).at(-1)).toContain("first");

      await server.client.move("s", sshd.url);
      expect(await server.client.sessions.get("s")).toMatchObject({ sandbox: sshd.url, directory: null });
      await runTurn(server, { shell: "cat own.txt" }, { write: { path: "own.txt", content: "copied" } });
      expect(await readFile(join(folder, "own.txt"), "utf8")).toBe("mine");
      // The sandbox of the killed move is gone, too.
      const left = await readdir(join(sshd.home, ".sluice/runner/sandboxes"));
      expect(left).toHaveLength(1);
      expectLawful(await readAll(server));
    });

    it("a machine that cannot be reached leaves the session where it was", async () => {
      const { sshd, server } = await open();
      await server.client.sessions.create("s", { agent: "scripted", sandbox: "local" });
      await runTurn(server, { write: { path: "a.txt", content: "first" } });
      sshd.down(true);
      await expect(server.client.move("s", sshd.url)).rejects.toMatchObject({ code: "sandbox_unreachable" });
      await runTurn(server, { say: "$history" });
      expect(await server.client.sessions.get("s")).toMatchObject({ sandbox: "local" });
    });
  },
);
