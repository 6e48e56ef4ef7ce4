import { SluiceError, type EventDraft } from "../contract/index.ts";
import type { Remembered } from "../log/port.ts";
import type { SessionContext } from "./context.ts";
import type { Drafts } from "./drafts.ts";
import { fingerprintOf } from "./fingerprint.ts";
import type { SessionFold } from "./fold.ts";
import { placeInstructions } from "./instructions.ts";
import { opening } from "./opening.ts";
import type { Accepted, SubmitOptions, Submitted } from "./port.ts";
import { refuseEnded, refuseWork } from "./refusals.ts";
import type { Runner } from "./runner.ts";
import { startTurn, userItem } from "./start.ts";
import { allSubmissionEvents, type Submission } from "./submission.ts";

/** What is sent to a session, in one transaction, and once for a key; call it under the lock. */
export async function accept(
  { deps, writer, commit }: SessionContext,
  runner: Runner,
  submissions: readonly Submission[],
  { via, key }: SubmitOptions,
): Promise<Submitted> {
  const { row, fold } = writer;
  const fingerprint = key === undefined ? "" : fingerprintOf(via, submissions);
  const known = key === undefined ? undefined : await deps.log.recall(row.id, key);
  if (known) return recalled(known, fingerprint);
  refuseEnded(row.id, fold, runner);
  if (deps.draining())
    throw new SluiceError("draining", "send it again in a moment: the server is restarting");
  if (submissions.some((submission) => submission.kind === "message" && submission.delivery === "alone"))
    refuseWork(fold);
  const harness = deps.harness(writer.spec);
  const placed = submissions.map((submission) => placeInstructions(harness, submission));
  const events = allSubmissionEvents(fold, placed, {
    via,
    steers: (submission) => steers(runner, submission),
  });
  const after = fold.head;
  const drafts = writer.drafts(opening(writer));
  const accepted = events.map((own) => add(own, { fold, drafts, runner }));
  const answer = { after, accepted };
  await commit(
    drafts,
    key === undefined ? {} : { key: { key, fingerprint, answer: JSON.stringify(answer) } },
  );
  runner.advance();
  return { ...answer, duplicate: false };
}

function add(
  events: readonly EventDraft[],
  { fold, drafts, runner }: { fold: SessionFold; drafts: Drafts; runner: Runner },
): Accepted | undefined {
  const event = events.at(-1);
  if (!event) return undefined;
  drafts.addAll(events.slice(0, -1));
  const sequence = fold.head + 1;
  const running = fold.turn?.id;
  drafts.add(event);
  if (event.type !== "input.accepted") return { sequence };
  const { input_id: inputId, turn_id: turnId, content } = event.data;
  if (turnId === running) drafts.addAll(userItem({ inputId, content }));
  else if (runner.canStartTurn && fold.inbox.length === 1) startTurn(fold, drafts);
  return { sequence, inputId, turnId };
}

function steers(runner: Runner, submission: Submission): boolean {
  if (submission.kind !== "message" || submission.delivery !== "steer") return false;
  return runner.canSteer({ type: "steer", inputId: "", content: submission.content });
}

function recalled(known: Remembered, fingerprint: string): Submitted {
  if (known.fingerprint === fingerprint)
    return { ...(JSON.parse(known.answer) as Submitted), duplicate: true };
  throw new SluiceError(
    "idempotency_conflict",
    "this Idempotency-Key came with another message before; use a new key for a new message",
  );
}
