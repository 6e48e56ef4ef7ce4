import { isRecord } from "../../contract/index.ts";
import { fromSessionId } from "../../dialects/anthropic/ids.ts";
import type { NamingRequest, OwnerRule } from "./at-owner.ts";

/** The session in the path. */
export const byPath: OwnerRule = ({ param }) => [param("id")];

/** The session in the query `session`. */
export const byQuery: OwnerRule = ({ query }) => toNames(query("session"));

/** The session that a new one is forked from: its checkpoints are with its owner. */
export const byFork: OwnerRule = async ({ body }) => {
  const { fork } = await body();
  return isRecord(fork) ? toNames(fork["session"]) : [];
};

/** The session in a path of the Anthropic dialect, whose id has two forms. */
export const byManagedPath: OwnerRule = ({ param }) => fromSessionId(param("id"));

/** The session whose output files are listed. */
export const byScope: OwnerRule = ({ query }) => fromSessionId(query("scope_id") ?? "");

/** Whether the work ends when this reader leaves. */
export function endsByLeaving({ query }: NamingRequest): boolean {
  return !["false", "0", undefined].includes(query("cancelOnDisconnect"));
}

export function toNames(session: unknown): string[] {
  return typeof session === "string" ? [session] : [];
}
