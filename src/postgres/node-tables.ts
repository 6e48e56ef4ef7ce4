import type { Part } from "./migrations.ts";

/** Identifies joining among the advisory locks of a database: "SLUN". */
export const JOIN_LOCK = 0x53_4c_55_4e;

/** The servers of a database, and its id. */
export const NODE_TABLES: Part = {
  name: "nodes",
  steps: [
    {
      readableBy: 1,
      sql: `
        CREATE TABLE sluice.nodes (
          life text PRIMARY KEY,
          name text NOT NULL,
          process text NOT NULL,
          started_at timestamptz NOT NULL,
          expires_at timestamptz NOT NULL
        );
        CREATE TABLE sluice.identity (id text NOT NULL);
        INSERT INTO sluice.identity VALUES (md5(random()::text || clock_timestamp()::text))
      `,
    },
    {
      // A server of before believes that it is alone.
      readableBy: 2,
      sql: `
        ALTER TABLE sluice.nodes
          ADD COLUMN machine text,
          ADD COLUMN url text,
          ADD COLUMN version text,
          ADD COLUMN draining boolean NOT NULL DEFAULT false
      `,
    },
    {
      // Counts of minutes: a crash of the database may empty them.
      readableBy: 2,
      sql: `
        CREATE UNLOGGED TABLE sluice.rate_buckets (
          name text COLLATE "C" PRIMARY KEY,
          tokens float8 NOT NULL,
          at timestamptz NOT NULL
        );
        CREATE UNLOGGED TABLE sluice.model_uses (
          tenant text COLLATE "C" NOT NULL,
          node text COLLATE "C" NOT NULL,
          at timestamptz NOT NULL,
          requests int NOT NULL,
          tokens bigint NOT NULL
        );
        CREATE INDEX model_uses_tenant ON sluice.model_uses (tenant, at)
      `,
    },
  ],
};

/** A server as the others see it. */
export interface NodeRow {
  /** One life of the process; a restarted server has another one. */
  readonly life: string;
  readonly name: string;
  /** The name of its process, for a look at it on the same machine. */
  readonly process: string;
  readonly machine: string;
  /** Where the other nodes reach it; absent while it starts. */
  readonly url?: string;
  readonly version?: string;
  readonly isDraining: boolean;
  /** Milliseconds since 1970, by the clock of the database. */
  readonly startedAt: number;
  /** How long its lease still lasts, by the clock of the database; negative where it is over. */
  readonly remainingMs: number;
}

export const NODE_ROW = `
  SELECT life, name, process, coalesce(machine, '') AS machine, url, version, draining,
    extract(epoch FROM started_at) * 1000 AS started,
    extract(epoch FROM expires_at - clock_timestamp()) * 1000 AS remaining
  FROM sluice.nodes`;

export function toNodeRow(row: Readonly<Record<string, unknown>>): NodeRow {
  const { url, version } = row;
  return {
    life: String(row["life"]),
    name: String(row["name"]),
    process: String(row["process"]),
    machine: String(row["machine"]),
    ...(typeof url === "string" && { url }),
    ...(typeof version === "string" && { version }),
    isDraining: row["draining"] === true,
    startedAt: Math.round(Number(row["started"])),
    remainingMs: Math.round(Number(row["remaining"])),
  };
}

/** The owner of a session in the log: one life of a node. */
export interface Holder {
  readonly life: string;
  readonly name: string;
}

export function toHolder({ life, name }: Holder): string {
  return `${life}@${name}`;
}

/** Undefined for a holder of another form: a server of an older version, which worked alone and is gone. */
export function parseHolder(text: string): Holder | undefined {
  const [life = "", name = "", ...more] = text.split("@");
  return more.length === 0 && /^[0-9a-f]{16}$/.test(life) && name !== "" ? { life, name } : undefined;
}
