import { setTimeout as sleep } from "node:timers/promises";
import { SluiceError } from "../../contract/index.ts";
import type { SessionRow } from "../../log/port.ts";
import type { SessionDeps } from "../deps.ts";
import { isPassing } from "../upkeep/lease.ts";
import { notFound } from "../refusals.ts";

/** The most attempts to claim a session while other servers are faster. */
const CLAIMS = 5;
/** How long a caretaker's round may hold a session before that is reported as a conflict. */
const PASSING_MS = 20_000;
const PASSING_LOOK_MS = 50;

type ClaimDeps = Pick<SessionDeps, "log" | "lease">;

/** Claims a session for this process. `open` takes a new epoch, which fences all earlier writers (docs/decisions/0036). */
export async function claimSession<T>(
  deps: ClaimDeps,
  id: string,
  open: (row: SessionRow) => Promise<T>,
): Promise<T> {
  for (let tries = CLAIMS; ; tries -= 1) {
    try {
      return await open(await freeRow(deps, id));
    } catch (error) {
      // Another server was faster. The next look at the row shows whether it runs the session.
      if (tries === 1 || !isFenced(error)) throw error;
    }
  }
}

/** Takes the next epoch of the session. On a full disk the old epoch stays, so that the session can be deleted. */
export async function claimEpoch(
  { log, owner }: Pick<SessionDeps, "log" | "owner">,
  row: SessionRow,
): Promise<number> {
  try {
    return await log.claim(row.id, { owner, from: row.epoch, onlyIdle: !row.active });
  } catch (error) {
    const isFull = error instanceof SluiceError && error.code === "storage_full";
    // The earlier writer of this process has stopped by now.
    if (isFull && row.owner === owner) return row.epoch;
    throw error;
  }
}

export function isFenced(error: unknown): boolean {
  return error instanceof SluiceError && error.code === "fenced";
}

/** The row of a session that no other living process runs. */
async function freeRow(deps: ClaimDeps, id: string): Promise<SessionRow> {
  const row = await settledRow(deps, id);
  const { lease } = deps;
  // On a shared log, the files of an idle session are with its owner as well.
  if (!row.active && !lease.isShared) return row;
  await lease.refresh();
  if (lease.isFree(row.owner, { isUrgent: true })) return row;
  if (lease.isShared) throw heldElsewhere(id, row.owner);
  const holder = Number(row.owner.split("@")[0]);
  throw new SluiceError(
    "session_busy",
    `session ${id} is being run by process ${holder}; wait until it ends, or speak to it there`,
    { holder },
  );
}

/** Whether another node holds the session, so that this is the wrong node for the request and no conflict. */
export function isHeldElsewhere(error: unknown): boolean {
  return error instanceof SluiceError && error.code === "session_busy" && error.facts["node"] !== undefined;
}

function heldElsewhere(id: string, owner: string): SluiceError {
  const node = owner.split("@")[1] ?? owner;
  const detail = `session ${id} is with the node ${node}; try again in a moment`;
  return new SluiceError("session_busy", detail, { node }, { retryable: true });
}

/** The row, once no caretaker holds the session any more. */
async function settledRow({ log, lease }: ClaimDeps, id: string): Promise<SessionRow> {
  for (const deadline = performance.now() + PASSING_MS; ; await sleep(PASSING_LOOK_MS)) {
    const row = await log.find(id);
    if (!row) throw notFound(id);
    const isHeld = row.active && isPassing(row.owner) && !lease.isFree(row.owner, { isUrgent: true });
    if (!isHeld || performance.now() > deadline) return row;
  }
}
