import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { createClient } from "../../src/client/index.ts";
import { lines, printed, Workbench } from "./workbench.ts";

let bench: Workbench;
beforeEach(() => {
  bench = new Workbench();
});
afterEach(() => bench.close());

async function create(...args: string[]): Promise<{ id: string; token: string; [field: string]: unknown }> {
  const made = await bench.run(["token", "create", "--json", ...args]);
  expect([made.code, made.err]).toEqual([0, ""]);
  return JSON.parse(made.out) as { id: string; token: string };
}

it("tokens of the command line are valid at once on a running server, until they are revoked", async () => {
  const child = bench.start(["serve", "--port", "0"]);
  const url = /http:\S+/.exec(await printed(child, /\n/))?.[0] ?? "";
  const own = createClient({ url, token: readFileSync(join(bench.data, "token"), "utf8").trim() });
  await own.sessions.create("s", { agent: "scripted" });
  await own.sessions.create("t", { agent: "scripted" });

  // Once through the folder, which the server at this port shares, and once through its API.
  for (const where of [
    ["--data", bench.data],
    ["--server", url],
  ]) {
    const made = await create("--scope", "read", "--session", "s", "--expires", "7d", ...where);
    expect(made).toMatchObject({ scope: "read", session: "s", expiresAt: expect.any(Number) });
    const client = createClient({ url, token: made.token });
    expect((await client.sessions.get("s")).sessionId).toBe("s");
    await expect(client.sessions.get("t")).rejects.toMatchObject({ status: 404 });
    await expect(client.sendMessage("s", "hi")).rejects.toMatchObject({ status: 403 });
    const listed = await bench.run(["token", "list", "--json", ...where]);
    expect(lines(listed.out)).toEqual([expect.objectContaining({ id: made.id, scope: "read" })]);
    expect(listed.out).not.toContain(made.token);
    const revoked = await bench.run(["token", "revoke", made.id, ...where]);
    expect(revoked.code).toBe(0);
    await expect(client.sessions.get("s")).rejects.toMatchObject({ status: 401 });
    expect((await bench.run(["token", "revoke", made.id, ...where])).code).toBe(1);
  }
});

it("a token is in no file of the data folder", async () => {
  const { token } = await create("--scope", "control", "--workspace", "team-a", "--name", "ci");
  const secret = token.split(".")[1] as string;
  for (const name of ["catalog.db", "catalog.db-wal"].filter((name) => existsSync(join(bench.data, name))))
    expect(readFileSync(join(bench.data, name)).includes(secret)).toBe(false);
});

it.each([
  [["token", "create"], "--scope"],
  [["token", "create", "--scope", "all"], "read, answer, control, admin"],
  [["token", "create", "--scope", "read", "--expires", "soon"], "duration"],
])("%j is bad usage", async (args, hint) => {
  const failed = await bench.run(args);
  expect(failed.code).toBe(2);
  expect(failed.err).toContain(hint);
});
