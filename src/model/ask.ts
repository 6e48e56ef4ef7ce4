import { createHash } from "node:crypto";

/** A request to the model, independent of the wire. */
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
  /** The client's own id of the conversation. */
  readonly conversation?: string;
  /** The length of the body, for the estimate of tokens. */
  readonly bytes: number;
}

export type Entry =
  | { readonly by: "user"; readonly texts: readonly string[] }
  | { readonly by: "model"; readonly text: string; readonly calls: readonly PastCall[] }
  | { readonly by: "tool"; readonly texts: readonly string[] }
  | { readonly by: "system"; readonly texts: readonly string[] };

interface PastCall {
  readonly id: string;
  readonly name: string;
  readonly input: unknown;
}

export interface OfferedTool {
  readonly name: string;
  /** The group of the tool, on wires that group tools. */
  readonly namespace?: string;
  /** Whether the tool takes plain text instead of JSON. */
  readonly freeform: boolean;
  /** The schema of the tool's arguments, if it has one. */
  readonly schema?: unknown;
  /** The tool that runs code, if only such code can call this tool. */
  readonly within?: { readonly name: string; readonly namespace?: string };
}

/** The entries without system messages. Consecutive entries of the model become one. */
export function toHistory(entries: readonly Entry[]): Entry[] {
  const history: Entry[] = [];
  for (const entry of entries) {
    const last = history.at(-1);
    if (entry.by === "system") continue;
    if (entry.by !== "model" || last?.by !== "model") history.push(entry);
    else
      history[history.length - 1] = {
        by: "model",
        text: [last.text, entry.text].filter(Boolean).join("\n"),
        calls: [...last.calls, ...entry.calls],
      };
  }
  return history;
}

export function toDigest(history: readonly Entry[], salt = ""): string {
  return createHash("sha256")
    .update(JSON.stringify([salt, history]))
    .digest("hex")
    .slice(0, 12);
}
