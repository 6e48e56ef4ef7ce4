import { createHash } from "node:crypto";
import type { Entry } from "./ask.ts";

/** The history without the system's words, and with each answer of the model in one piece. */
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

/** The same for the same history, and for no other. */
export function toDigest(history: readonly Entry[], salt = ""): string {
  return createHash("sha256")
    .update(JSON.stringify([salt, history]))
    .digest("hex")
    .slice(0, 12);
}
