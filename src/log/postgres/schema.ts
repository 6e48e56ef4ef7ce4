import type { Part } from "../../postgres/migrations.ts";

const PARTITIONS = 16;

/** The tables of the log. `places` has the small columns that every append changes, apart from the large ones. */
export const LOG_TABLES: Part = {
  name: "log",
  steps: [
    {
      readableBy: 1,
      sql: `
        CREATE TABLE sluice.sessions (
          ordinal bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
          id text COLLATE "C" NOT NULL UNIQUE,
          created_at bigint NOT NULL,
          spec text NOT NULL,
          ttl bigint,
          tenant text COLLATE "C"
        );
        CREATE INDEX sessions_tenant ON sluice.sessions (tenant, ordinal) WHERE tenant IS NOT NULL;
        CREATE INDEX sessions_ttl ON sluice.sessions (ordinal) WHERE ttl IS NOT NULL;
        CREATE TABLE sluice.places (
          session bigint PRIMARY KEY,
          head bigint NOT NULL,
          floor bigint NOT NULL,
          epoch bigint NOT NULL,
          active boolean NOT NULL,
          updated_at bigint NOT NULL,
          process bigint,
          spool_offset bigint,
          bytes bigint NOT NULL,
          owner text NOT NULL
        ) WITH (fillfactor = 50);
        CREATE INDEX places_active ON sluice.places (session) WHERE active;
        CREATE TABLE sluice.states (
          session bigint NOT NULL,
          kind text NOT NULL,
          at bigint NOT NULL,
          process bigint,
          state text NOT NULL,
          PRIMARY KEY (session, kind)
        );
        CREATE TABLE sluice.segments (
          session bigint NOT NULL,
          first bigint NOT NULL,
          last bigint NOT NULL,
          bytes bigint NOT NULL,
          blob_bytes bigint NOT NULL,
          bodies text NOT NULL,
          raws text,
          PRIMARY KEY (session, last)
        ) PARTITION BY HASH (session);
        ${partitions("segments")}
        CREATE TABLE sluice.blobs (
          session bigint NOT NULL,
          hash text COLLATE "C" NOT NULL,
          last bigint NOT NULL,
          bytes bigint NOT NULL,
          content text NOT NULL,
          PRIMARY KEY (session, hash)
        ) PARTITION BY HASH (session);
        ${partitions("blobs")}
        CREATE TABLE sluice.keys (
          session bigint NOT NULL,
          key text COLLATE "C" NOT NULL,
          fingerprint text NOT NULL,
          answer text NOT NULL,
          PRIMARY KEY (session, key)
        );
        CREATE TABLE sluice.fences (id text COLLATE "C" PRIMARY KEY, epoch bigint NOT NULL);
        CREATE TABLE sluice.turns (
          session bigint NOT NULL,
          last bigint NOT NULL,
          began bigint NOT NULL,
          outline text NOT NULL,
          PRIMARY KEY (session, last)
        );
        CREATE TABLE sluice.folds (
          session bigint NOT NULL,
          at bigint NOT NULL,
          state text NOT NULL,
          PRIMARY KEY (session, at)
        )
      `,
    },
    {
      readableBy: 1,
      sql: `
        CREATE TABLE sluice.usage (
          tenant text COLLATE "C" NOT NULL,
          day text COLLATE "C" NOT NULL,
          ordinal bigint NOT NULL,
          session text COLLATE "C" NOT NULL,
          model text COLLATE "C" NOT NULL,
          provider text COLLATE "C" NOT NULL,
          price text COLLATE "C" NOT NULL,
          requests bigint NOT NULL,
          input bigint NOT NULL,
          output bigint NOT NULL,
          cache_read bigint NOT NULL,
          cache_write bigint NOT NULL,
          reasoning bigint NOT NULL,
          usd double precision NOT NULL,
          PRIMARY KEY (tenant, day, ordinal, model, provider, price)
        );
        CREATE INDEX usage_session ON sluice.usage (session)
      `,
    },
  ],
};

function partitions(table: string): string {
  return Array.from(
    { length: PARTITIONS },
    (_, index) =>
      `CREATE TABLE sluice.${table}_${index} PARTITION OF sluice.${table} FOR VALUES WITH (MODULUS ${PARTITIONS}, REMAINDER ${index});\n`,
  ).join("");
}
