import { randomBytes } from "node:crypto";
import { Readable } from "node:stream";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createPostgresCatalog } from "../../src/catalog/postgres/catalog.ts";
import { catalogTestkit } from "../../src/catalog/testkit.ts";
import { create, failsWith, TENANT } from "../../src/catalog/testkit/suite.ts";
import { requirePostgres, startPostgres, type TestPostgres } from "../support/postgres.ts";

const { bin, reason } = requirePostgres();

describe.skipIf(bin === undefined)(reason ?? "a real PostgreSQL", () => {
  const keys = [randomBytes(32)];
  let server: TestPostgres;
  beforeAll(async () => {
    server = await startPostgres(bin ?? "");
  }, 60_000);
  afterAll(() => server?.stop());

  catalogTestkit({
    name: "postgres",
    describe,
    it: (name, body) => it(name, body, 60_000),
    create: async () => {
      const url = await server.createDatabase();
      const clock = { now: Date.UTC(2025, 0, 1) };
      const open = () => createPostgresCatalog({ url, keys, now: () => clock.now });
      let newest = await open();
      return {
        catalog: newest,
        clock,
        reopen: async () => {
          await newest.close();
          newest = await open();
          return newest;
        },
        dispose: () => newest.close(),
      };
    },
  });

  it("refuses a node with another key, and encrypts again for a new one", async () => {
    const url = await server.createDatabase();
    const first = await createPostgresCatalog({ url, keys });
    await create(first, "a", { secret: "hush" });
    await first.close();
    const next = randomBytes(32);
    const refused = await failsWith("data_version", createPostgresCatalog({ url, keys: [next] }));
    expect(refused.message).toContain("SLUICE_SEAL_KEY");
    await (await createPostgresCatalog({ url, keys: [next, ...keys] })).close();
    const second = await createPostgresCatalog({ url, keys: [next] });
    expect(await second.openSecret(TENANT, "thing", "a")).toBe("hush");
    await second.close();
    await failsWith("data_version", createPostgresCatalog({ url, keys }));
    const rows = await server.admin(new URL(url).pathname.slice(1))`SELECT encrypted FROM sluice.secrets`;
    expect(JSON.stringify(rows)).not.toContain("hush");
  }, 60_000);

  it("fails a read whose content is removed meanwhile, and does not end it early", async () => {
    const catalog = await createPostgresCatalog({ url: await server.createDatabase(), keys });
    const parts = [1, 2, 3, 4].map((byte) => Buffer.alloc(600_000, byte));
    const held = await catalog.bytes.write(Readable.from(parts));
    const reader = (await catalog.bytes.read(held.hash))?.stream().getReader();
    expect((await reader?.read())?.value?.length).toBe(600_000);
    // No document names the content, so the end of its hold removes it.
    await held.release();
    const rest = async (): Promise<number> => {
      for (let size = 600_000; ;) {
        const next = await reader?.read();
        if (!next || next.done) return size;
        size += next.value.length;
      }
    };
    await expect(rest()).rejects.toMatchObject({ code: "file_not_found" });
    await catalog.close();
  }, 60_000);

  it("lets one of many creations of one id win, from two nodes", async () => {
    const url = await server.createDatabase();
    const nodes = [await createPostgresCatalog({ url, keys }), await createPostgresCatalog({ url, keys })];
    const made = await Promise.allSettled(
      Array.from({ length: 12 }, (_, n) => create(nodes[n % 2] ?? nodes[0]!, "one")),
    );
    expect(made.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    const many = Array.from({ length: 40 }, (_, n) => create(nodes[n % 2] ?? nodes[0]!, `id${n}`));
    const ordinals = (await Promise.all(many)).map(({ ordinal }) => ordinal);
    expect(new Set(ordinals).size).toBe(40);
    const listed = await nodes[0]?.list(TENANT, { kind: "thing", limit: 100 });
    const times = listed?.map(({ createdAt }) => createdAt) ?? [];
    expect(times).toEqual(times.toSorted((a, b) => a - b));
    for (const node of nodes) await node.close();
  }, 60_000);
});
