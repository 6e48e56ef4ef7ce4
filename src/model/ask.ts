/** What a request asks, whatever the wire it came by. */
export interface Ask {
  readonly model: string;
  readonly stream: boolean;
  readonly system: string;
  /** The history, oldest first. */
  readonly entries: readonly Entry[];
  readonly tools: readonly OfferedTool[];
  /** The one tool that the answer has to call. */
  readonly forced?: string;
  /** The JSON schema that the answer's text has to fit. */
  readonly schema?: unknown;
  /** Whether the answer may hold thoughts. */
  readonly thinks: boolean;
  readonly wantsUsage: boolean;
  /** The client's own name of the conversation, where it gives one. */
  readonly conversation?: string;
  /** Of the request's body, for the estimate of its tokens. */
  readonly bytes: number;
}

export type Entry =
  | { readonly by: "user"; readonly texts: readonly string[] }
  | { readonly by: "model"; readonly text: string; readonly calls: readonly PastCall[] }
  | { readonly by: "tool"; readonly texts: readonly string[] }
  | { readonly by: "system"; readonly texts: readonly string[] };

export interface PastCall {
  readonly id: string;
  readonly name: string;
  readonly input: unknown;
}

export interface OfferedTool {
  readonly name: string;
  /** The group in which some wires offer it. */
  readonly namespace?: string;
  /** Takes plain text instead of JSON. */
  readonly freeform: boolean;
  /** Of its arguments; undefined where it does not tell. */
  readonly schema?: unknown;
  /** The tool that runs code, where only such code can call this one. */
  readonly within?: { readonly name: string; readonly namespace?: string };
}
