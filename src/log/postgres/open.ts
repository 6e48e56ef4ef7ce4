import { Connections } from "../../postgres/connections.ts";
import { migrate } from "../../postgres/migrations.ts";
import type { EventLog } from "../port.ts";
import { PostgresLog } from "./log.ts";
import { LOG_TABLES } from "./schema.ts";

const LANES = 2;
const OTHERS = 4;

export interface PostgresLogOptions {
  /** `postgres://user:password@host:5432/name`; may lead to a pooler in transaction mode. */
  readonly url: string;
  /** The same database without a pooler, for notifications. Without both, writes of other nodes are found by a poll. */
  readonly directUrl?: string;
}

export interface OpenPostgresLog extends EventLog {
  /** Whether the writes of other nodes are heard at once. */
  readonly hears: boolean;
}

/** A log in a PostgreSQL database, which several nodes may share. Creates its tables. */
export async function createPostgresLog({
  url,
  directUrl = url,
}: PostgresLogOptions): Promise<OpenPostgresLog> {
  const others = await Connections.create({ url, max: OTHERS });
  const lanes = await Promise.all(Array.from({ length: LANES }, () => Connections.create({ url, max: 1 })));
  const listening = await Connections.create({ url: directUrl, max: 1 });
  try {
    await migrate(others, LOG_TABLES);
    const log = new PostgresLog({ lanes, others, listening });
    await log.start();
    return log;
  } catch (error) {
    await Promise.allSettled([...lanes, others, listening].map((each) => each.close()));
    throw error;
  }
}
