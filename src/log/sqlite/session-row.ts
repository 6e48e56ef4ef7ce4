import type { SessionSpec } from "../../contract/index.ts";
import type { SessionRow } from "../port.ts";
import type { Row } from "../../sqlite/driver.ts";

export function toSessionRow(row: Row): SessionRow {
  const checkpoint = row.checkpoint !== null && {
    checkpoint: parse(row.checkpoint),
    checkpointOffset: Number(row.checkpoint_at),
  };
  const spool = row.process !== null && {
    spool: { process: Number(row.process), offset: Number(row.spool_offset), ...checkpoint },
  };
  const snapshot = row.snapshot !== null && {
    snapshot: { at: Number(row.snapshot_at), state: parse(row.snapshot) },
  };
  return {
    id: String(row.id),
    ordinal: Number(row.ordinal),
    spec: parse(row.spec) as SessionSpec,
    createdAt: Number(row.created_at),
    updatedAt: Number(row.updated_at),
    head: Number(row.head),
    floor: Number(row.floor),
    epoch: Number(row.epoch),
    owner: String(row.owner),
    active: row.active === 1,
    ...spool,
    ...snapshot,
  };
}

function parse(text: unknown): unknown {
  return JSON.parse(String(text));
}
