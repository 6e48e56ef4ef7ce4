import type { ContentPart } from "../../contract/index.ts";
import { partText } from "../partText.ts";
import type { HarnessCommand } from "../port.ts";
import { own } from "../transcript.ts";
import { toLine } from "./request.ts";
import type { Ask, OpencodeState } from "./state.ts";

/** The request that carries a command; none for an answer that nobody waits for any more. */
export function encode(
  state: OpencodeState,
  command: HarnessCommand,
): readonly string[] | undefined | "later" {
  const { session, turn } = state;
  switch (command.type) {
    case "prompt":
      if (session === undefined) return "later";
      return [
        isCompact(command.content)
          ? toCompaction(state, session, command)
          : toPrompt(state, session, command),
      ];
    case "steer":
      if (session === undefined || !turn?.hasBegun || turn.isInterrupted || turn.isIdle) return undefined;
      return [toPrompt(state, session, command)];
    case "interrupt":
      return session === undefined ? "later" : [requestAbort(session)];
    case "permission": {
      const ask = own(state.transcript.asks, command.id);
      return ask?.kind === "permission" ? [toReply(ask, command)] : [];
    }
    case "question": {
      const ask = own(state.transcript.asks, command.id);
      return ask?.kind === "question" ? [toAnswer(ask, command.answers)] : [];
    }
    default:
      return undefined;
  }
}

export function requestAbort(session: string): string {
  return toLine({ method: "POST", path: `/session/${session}/abort` });
}

export const COMPACT = "/compact";

type Said = Extract<HarnessCommand, { type: "prompt" | "steer" }>;

function isCompact([part, ...more]: readonly ContentPart[]): boolean {
  return more.length === 0 && part?.type === "text" && part.text.trim() === COMPACT;
}

/** What its own clients send when the user types it; without a model yet, there is nothing to compact either. */
function toCompaction(state: OpencodeState, session: string, said: Said): string {
  const model = state.model ?? state.wish.model;
  if (model === undefined) return toPrompt(state, session, said);
  return toLine({ method: "POST", path: `/session/${session}/summarize`, body: model, input: said.inputId });
}

function toPrompt({ wish }: OpencodeState, session: string, { content, inputId }: Said): string {
  const body = { ...wish, parts: content.map(toPart) };
  return toLine({ method: "POST", path: `/session/${session}/prompt_async`, body, input: inputId });
}

function toPart(part: ContentPart): unknown {
  if (part.type === "image" && part.path.startsWith("data:")) {
    const mime = /^data:([^;,]+)/.exec(part.path)?.[1] ?? part.mime ?? "image/png";
    return { type: "file", mime, url: part.path };
  }
  return { type: "text", text: partText(part) };
}

function toReply(ask: Ask, { reply, message }: Extract<HarnessCommand, { type: "permission" }>): string {
  const body = { reply, ...(message === undefined ? {} : { message }) };
  return toLine({ method: "POST", path: `/permission/${ask.id}/reply`, body });
}

function toAnswer(ask: Ask, answers: readonly (readonly string[])[] | undefined): string {
  if (answers === undefined) return toLine({ method: "POST", path: `/question/${ask.id}/reject` });
  const count = ask.question?.count ?? 1;
  // One choice for each question may come as one list; and every question must have an answer, even if it is none.
  const [first = []] = answers;
  const each =
    count > 1 && answers.length === 1 && first.length === count ? first.map((choice) => [choice]) : answers;
  const missing = Array.from({ length: Math.max(0, count - each.length) }, () => []);
  return toLine({
    method: "POST",
    path: `/question/${ask.id}/reply`,
    body: { answers: [...each, ...missing] },
  });
}
