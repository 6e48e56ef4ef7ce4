/** What one reader of this dialect wants to see, and can understand. */
export interface AgUiView {
  /** The agent of the session, by which its `<harness>.session-id` event is called. */
  readonly agent?: string;
  /** What the client calls the session; its own id unless said. */
  readonly thread?: string;
  /** Only the events of this run; the stream ends behind its terminal event. */
  readonly run?: string;
  /** The version that the client says it speaks; the first clients say none. */
  readonly protocol?: string;
  /** With `RAW` events: the agent's own lines. */
  readonly raw?: boolean;
  /** `false` leaves `sandbox.file` events out. */
  readonly fileEvents?: boolean;
  /** The client answers its tools while the run goes on: waiting for them does not end it. */
  readonly bridged?: boolean;
  /** For a reader that has not sent them itself: also what users said and what client tools answered. */
  readonly inputs?: boolean;
  /** A reader of several runs is done behind the first terminal event from this sequence on. */
  readonly until?: number;
  /** A reader that came back had seen this much of an event that has more frames. */
  readonly behind?: { readonly sequence: number; readonly index: number };
}

/** Outcomes and fields that clients before 1.0 refuse. */
export function speaksOne({ protocol }: { readonly protocol?: string | undefined }): boolean {
  return protocol !== undefined && Number.parseInt(protocol, 10) >= 1;
}
