import type { SessionSpec } from "../../contract/index.ts";
import { DAMAGED_AGENT, type SessionRow } from "../port.ts";
import type { Row } from "../../sqlite/driver.ts";

export function toSessionRow(row: Row): SessionRow {
  const state = parseState(row.checkpoint);
  const checkpoint = state !== undefined && {
    checkpoint: state,
    checkpointOffset: Number(row.checkpoint_at),
  };
  const spool = row.process !== null && {
    spool: { process: Number(row.process), offset: Number(row.spool_offset), ...checkpoint },
  };
  const fold = parseState(row.snapshot);
  const snapshot = fold !== undefined && { snapshot: { at: Number(row.snapshot_at), state: fold } };
  return {
    id: String(row.id),
    ordinal: Number(row.ordinal),
    spec: parseSpec(row.spec),
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

/** A session whose spec is damaged can be read and removed, and runs nothing more. */
function parseSpec(text: unknown): SessionSpec {
  const spec = parseState(text) as Partial<SessionSpec> | null | undefined;
  return typeof spec?.agent === "string" ? (spec as SessionSpec) : { agent: DAMAGED_AGENT };
}

/** A state only saves work. One that is damaged is none, and costs no more than that work. */
function parseState(text: unknown): unknown {
  if (text === null) return undefined;
  try {
    return JSON.parse(String(text)) as unknown;
  } catch {
    return undefined;
  }
}
