import { afterAll, beforeAll, describe, it } from "vitest";
import { createPostgresLog } from "../../src/log/postgres/open.ts";
import { eventLogTestkit } from "../../src/log/testkit.ts";
import { requirePostgres, startPostgres, type TestPostgres } from "../support/postgres.ts";

const { bin, reason } = requirePostgres();

describe.skipIf(bin === undefined)(reason ?? "a real PostgreSQL", () => {
  let server: TestPostgres;
  beforeAll(async () => {
    server = await startPostgres(bin ?? "");
  }, 60_000);
  afterAll(() => server?.stop());

  eventLogTestkit({
    name: "postgres",
    describe,
    it: (name, body) => it(name, body, 60_000),
    create: async () => {
      const url = await server.createDatabase();
      let newest = await createPostgresLog({ url });
      return {
        log: newest,
        reopen: async () => {
          await newest.close();
          newest = await createPostgresLog({ url });
          return newest;
        },
        dispose: () => newest.close(),
      };
    },
  });
});
