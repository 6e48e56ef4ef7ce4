/** What a run was called by the client that started it; stands in the log with the input or the answer that began it. */
export interface RunPayload {
  readonly runId: string;
  readonly parentRunId?: string;
  /** The version that the client said it speaks: readers of the run who say none are told the same. */
  readonly protocol?: string;
  /** What the client keeps as the agent's state, given back whenever we tell of ours. */
  readonly state?: Readonly<Record<string, unknown>>;
  /** The client's own id of the message that it sent. */
  readonly messageId?: string;
  /** The run ends when its client goes. */
  readonly cancelOnDisconnect?: true;
}

const KEY = "ag-ui";

/** The event that names the run which an answer begins: answers to questions have no place for it. */
export const RUN_EVENT = "ag-ui.run";

export function toPayload(run: RunPayload): Record<string, unknown> {
  return { [KEY]: run };
}

export function fromPayload(payload: unknown): RunPayload | undefined {
  const run = isRecord(payload) ? payload[KEY] : undefined;
  return isRun(run) ? run : undefined;
}

export function isRun(value: unknown): value is RunPayload {
  return isRecord(value) && typeof value["runId"] === "string";
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
