import { mkdirSync, symlinkSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { expect, it } from "vitest";
import type { TestServer } from "../support/server.ts";
import { describeFortress, give, makeFolder, runInside, serveAs, type ServerUser } from "./fortress-bench.ts";

describeFortress("a workspace that holds the server's own data", (user) => {
  it.each([
    ["a home", (home: string) => home],
    ["the folder above it", (home: string) => dirname(home)],
  ])(
    "%s shows neither the token nor the log, also after the folders above were moved",
    async (_name, toDirectory) => {
      const { home, server, data } = await serveInside(user);
      const directory = toDirectory(home);
      const inside = join("/home/user/workspace", relative(directory, data));
      const folder = dirname(dirname(dirname(inside)));
      await server.client.sessions.create("s", { agent: "scripted", directory });
      const look = (): Promise<string> => searchFor(server, [server.token], folder);
      expect(await look()).toBe("");
      const moved = await runInside(
        server,
        "s",
        `mv ${inside} ${inside}-2; mv ${dirname(inside)} ${dirname(inside)}-2; mv ${folder}/.local ${folder}/.moved; ls -A ${inside}`,
      );
      expect(moved.stdout).toBe("");
      expect(await look()).toBe("");
      expect((await readFile(join(data, "token"), "utf8")).trim()).toBe(server.token);
    },
  );

  it("cannot be that data, or a folder of it, by any name", async () => {
    const { home, server, data } = await serveInside(user);
    symlinkSync(data, join(home, "by-link"));
    for (const directory of [
      data,
      `${data}/`,
      join(data, "sandboxes"),
      join(data, "spools"),
      join(home, "by-link"),
    ]) {
      const made = server.client.sessions.create("s", { agent: "scripted", directory });
      await expect(made, directory).rejects.toThrow(/sluice's own data|no directory/);
    }
    await expect(readFile(join(data, "token"), "utf8")).resolves.toContain(server.token);
  });
});

/** A home with a server's data in the usual folder. */
async function serveInside(user: ServerUser): Promise<{ home: string; server: TestServer; data: string }> {
  const above = await makeFolder(user);
  const home = join(above, "me");
  mkdirSync(join(home, ".local/share"), { recursive: true });
  give(above, user);
  const server = await serveAs(user, { disk: join(home, ".local/share"), env: { HOME: home } });
  return { home, server, data: server.data };
}

/** The files below a folder inside that hold one of these texts. */
async function searchFor(server: TestServer, texts: readonly string[], folder: string): Promise<string> {
  const patterns = texts.map((text) => `-e ${text}`).join(" ");
  const { stdout } = await runInside(server, "s", `grep -rlasF ${patterns} ${folder} 2>/dev/null`);
  return stdout;
}
