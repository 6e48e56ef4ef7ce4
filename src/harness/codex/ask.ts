import { declineLine } from "./answers.ts";
import { isMain, placeOf, type Reading } from "./reading.ts";
import type { AskedPermission, AskOfCodex } from "./state.ts";
import type { RpcId } from "../rpc.ts";

/** Whose request it is, and in which thread. */
export interface Asker {
  readonly id: RpcId;
  readonly thread: string;
}

type Permitting = Extract<AskOfCodex, { permission: AskedPermission }>;

export function askPermission(reading: Reading, asked: Permitting): boolean {
  if (refuseOutsideTurn(reading, asked)) return true;
  reading.scribe.askPermission(asked, { ...asked.permission, ...placeOf(reading, asked.thread) });
  return true;
}

export function askQuestion(reading: Reading, asked: Extract<AskOfCodex, { prompt: unknown }>): boolean {
  if (refuseOutsideTurn(reading, asked)) return true;
  reading.scribe.askQuestion(asked, { ...asked.prompt, ...placeOf(reading, asked.thread) });
  return true;
}

/** A sub-agent may go on when its turn is over; but only in a turn can anybody answer it. */
export function refuseOutsideTurn(reading: Reading, asked: AskOfCodex): boolean {
  if (reading.state.prompted || isMain(reading, asked.thread)) return false;
  reading.replies.push(declineLine(asked));
  const message = "a sub-agent asked for something when its turn had ended, and was refused";
  const data = { code: "permission_denied", message };
  reading.scribe.add({ type: "error", data }, placeOf(reading, asked.thread));
  return true;
}
