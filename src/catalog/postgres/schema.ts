import type { Part } from "../../postgres/migrations.ts";

/** The tables of the catalog. Secrets lie apart from the documents, so that reading one cannot show them. */
export const CATALOG_TABLES: Part = {
  name: "catalog",
  steps: [
    {
      readableBy: 1,
      sql: `
        CREATE TABLE sluice.documents (
          ordinal bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
          tenant text COLLATE "C" NOT NULL,
          kind text COLLATE "C" NOT NULL,
          id text COLLATE "C" NOT NULL,
          parent text COLLATE "C",
          revision bigint NOT NULL,
          created_at bigint NOT NULL,
          updated_at bigint NOT NULL,
          archived boolean NOT NULL,
          unique_key text COLLATE "C",
          labels text NOT NULL,
          bytes_until bigint,
          body text NOT NULL
        );
        CREATE UNIQUE INDEX documents_id ON sluice.documents (kind, id, tenant);
        CREATE UNIQUE INDEX documents_key ON sluice.documents (tenant, kind, unique_key) WHERE unique_key IS NOT NULL;
        CREATE INDEX documents_order ON sluice.documents (tenant, kind, ordinal);
        CREATE INDEX documents_parent ON sluice.documents (tenant, parent, kind, ordinal) WHERE parent IS NOT NULL;
        CREATE INDEX documents_created ON sluice.documents (tenant, kind, created_at, ordinal);
        CREATE INDEX documents_expiring ON sluice.documents (bytes_until) WHERE bytes_until IS NOT NULL;
        CREATE TABLE sluice.labels (
          tenant text COLLATE "C" NOT NULL,
          kind text COLLATE "C" NOT NULL,
          name text COLLATE "C" NOT NULL,
          value text COLLATE "C" NOT NULL,
          document bigint NOT NULL,
          PRIMARY KEY (tenant, kind, name, value, document)
        );
        CREATE INDEX labels_document ON sluice.labels (document);
        CREATE TABLE sluice.secrets (document bigint PRIMARY KEY, encrypted text NOT NULL);
        CREATE TABLE sluice.contents (hash text COLLATE "C" PRIMARY KEY, size bigint NOT NULL);
        CREATE TABLE sluice.content_chunks (
          content text COLLATE "C" NOT NULL,
          n int NOT NULL,
          data bytea NOT NULL,
          PRIMARY KEY (content, n)
        );
        CREATE TABLE sluice.content_uses (
          document bigint NOT NULL,
          hash text COLLATE "C" NOT NULL,
          PRIMARY KEY (document, hash)
        );
        CREATE INDEX content_uses_hash ON sluice.content_uses (hash);
        CREATE TABLE sluice.content_holds (
          id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
          hash text COLLATE "C" NOT NULL,
          until bigint NOT NULL
        );
        CREATE INDEX content_holds_hash ON sluice.content_holds (hash);
        CREATE TABLE sluice.content_doubts (hash text COLLATE "C" PRIMARY KEY);
        CREATE TABLE sluice.key_checks (id int PRIMARY KEY, encrypted text NOT NULL)
      `,
    },
  ],
};
