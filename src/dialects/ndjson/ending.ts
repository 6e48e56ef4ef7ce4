import type { EventData } from "../../contract/index.ts";

type Ended = EventData<"turn.ended">;

/**
 * Whether a turn ends with a result. A turn that its model broke off (a refusal, a limit) before a word was said has no
 * final message: an error stands in its place.
 */
export function hasResult({ status, stop_reason }: Ended, text: string | undefined): boolean {
  return status === "completed" && (stop_reason === "end_turn" || text !== undefined);
}

export function toError({ status, stop_reason, error, details }: Ended): { code: string; message: string } {
  if (status === "interrupted") {
    const what = stop_reason === "terminated" ? "The session was terminated." : "The run was cancelled.";
    return { code: "cancelled", message: what };
  }
  const { reason } = (details ?? {}) as { reason?: unknown };
  const told = error?.message ?? (typeof reason === "string" && reason !== "" ? reason : undefined);
  return { code: error?.code ?? stop_reason, message: told ?? `The run failed: ${stop_reason}.` };
}
