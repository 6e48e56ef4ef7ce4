import { isRecord } from "./payload.ts";

/** An event of this dialect, read back: what the fields of all that make messages are called. */
export interface Told {
  readonly type: string;
  readonly timestamp?: number;
  readonly messageId?: string;
  readonly toolCallId?: string;
  readonly toolCallName?: string;
  readonly parentMessageId?: string;
  readonly subagentRunId?: string;
  readonly activityType?: string;
  readonly role?: string;
  readonly delta?: string;
  readonly content?: unknown;
  readonly metadata?: unknown;
}

/** Whether the result of a call says that the call has failed. */
export function isFailed(metadata: unknown): boolean {
  const extras = isRecord(metadata) ? metadata["tanstack"] : undefined;
  return isRecord(extras) && extras["state"] === "output-error";
}
