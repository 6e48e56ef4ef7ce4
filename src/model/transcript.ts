import type { Entry } from "./ask.ts";

/** OpenCode asks for the summary of a conversation that it writes out; this is that conversation again. */
export function parseTranscript(text: string): Entry[] | undefined {
  const written = /<conversation>\n([\s\S]*)\n<\/conversation>/.exec(text)?.[1];
  if (written === undefined) return undefined;
  const [, ...pieces] = written.split(SPEAKER);
  const entries: Entry[] = [];
  for (let at = 0; at + 1 < pieces.length; at += 2)
    entries.push(toEntry(pieces[at] ?? "", pieces[at + 1] ?? ""));
  return entries;
}

const SPEAKER = /^\[(User|Assistant|Assistant tool call|Assistant reasoning|Tool result|Tool error)\]: /m;

function toEntry(speaker: string, said: string): Entry {
  const text = said.trim();
  if (speaker === "User") return { by: "user", texts: [text] };
  if (speaker.startsWith("Tool")) return { by: "tool", texts: [text] };
  return { by: "model", text: speaker === "Assistant" ? text : "", calls: [] };
}
