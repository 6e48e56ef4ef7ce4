import { SluiceError, type EventDraft } from "../../contract/index.ts";
import type { SessionContext } from "../context.ts";
import type { Drafts } from "../fold/drafts.ts";
import type { SessionFold } from "../fold/session-fold.ts";
import { opening } from "../fold/writer.ts";
import type { Accepted, SubmitOptions, Submitted } from "../port.ts";
import type { Runner } from "../process/runner.ts";
import { startTurn, userItem } from "../turn/turn-start.ts";
import { digest, fromRemembered } from "./idempotency.ts";
import { inlineInstructions } from "./instructions.ts";
import { refuseEnded, refuseWork } from "../refusals.ts";
import { allSubmissionEvents, type Submission } from "./submission.ts";

/** Accepts submissions in one transaction, and once for an idempotency key. Call it under the lock. */
export async function accept(
  { deps, writer, commit }: SessionContext,
  runner: Runner,
  submissions: readonly Submission[],
  { via, key, by }: SubmitOptions,
): Promise<Submitted> {
  const { row, fold } = writer;
  const fingerprint = key === undefined ? "" : digest([via, submissions]);
  const known = key === undefined ? undefined : await deps.log.recall(row.id, key);
  if (known) return { ...fromRemembered<Submitted>(known, fingerprint), duplicate: true };
  refuseEnded(row.id, fold, runner);
  if (deps.draining())
    throw new SluiceError("draining", "send it again in a moment: the server is restarting");
  if (submissions.some((submission) => submission.kind === "message" && submission.delivery === "alone"))
    refuseWork(fold);
  const harness = deps.harness(writer.spec);
  const inlined = submissions.map((submission) => inlineInstructions(harness, submission));
  const events = allSubmissionEvents(fold, inlined, {
    via,
    by,
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
  // An agent is started with instructions, so they need a turn of their own.
  if (submission.instructions !== undefined) return false;
  return runner.canSteer({ type: "steer", inputId: "", content: submission.content });
}
