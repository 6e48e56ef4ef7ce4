import type { SpoolLine } from "../../contract/index.ts";
import type { Harness, HarnessCommand } from "../../harness/port.ts";
import type { Pending } from "../../sessions/fold.ts";

/** What somebody told the agent by one recorded line, as far as the harness's own words give it away. */
export type RecordedInput =
  | { readonly type: "prompt"; readonly text: string }
  | { readonly type: "interrupt" }
  | { readonly type: "permission"; readonly pending: Pending; readonly approved: boolean }
  | { readonly type: "question"; readonly pending: Pending; readonly rejected: boolean }
  | { readonly type: "tool"; readonly pending: Pending };

const MARK = "\u0001what was said\u0001";

/**
 * A harness translates commands into lines, never back. So each command that may have been meant is encoded,
 * and the one whose line looks like the recorded one is it.
 */
export function readInput(
  harness: Harness,
  states: { before: unknown; after: unknown },
  line: SpoolLine,
  pending: readonly Pending[],
): RecordedInput | undefined {
  const encode = (state: unknown, command: HarnessCommand): string | undefined =>
    harness.encode(state, command)?.[0];
  for (const ask of pending) {
    const command = toAnswer(ask);
    const wasOpen = encode(states.before, command) !== undefined;
    const isAnswered = wasOpen && encode(states.after, command) === undefined;
    if (isAnswered)
      return toRecordedAnswer(ask, (command) => matches(encode(states.before, command), line.text));
  }
  const prompt = encode(states.before, {
    type: "prompt",
    inputId: "inp_0",
    content: [{ type: "text", text: MARK }],
  });
  const text = prompt && findSaid(prompt, line.text);
  if (text !== undefined && text !== "") return { type: "prompt", text };
  if (matches(encode(states.before, { type: "interrupt" }), line.text)) return { type: "interrupt" };
  return undefined;
}

function toAnswer({ kind, id }: Pending): HarnessCommand {
  if (kind === "permission") return { type: "permission", id, reply: "reject" };
  if (kind === "question") return { type: "question", id };
  return { type: "tool", id, content: [], isError: false };
}

function toRecordedAnswer(pending: Pending, isSaid: (command: HarnessCommand) => boolean): RecordedInput {
  const { kind, id } = pending;
  if (kind === "tool") return { type: "tool", pending };
  if (kind === "question") return { type: "question", pending, rejected: isSaid({ type: "question", id }) };
  const approved = (["once", "always"] as const).some((reply) => isSaid({ type: "permission", id, reply }));
  return { type: "permission", pending, approved };
}

function matches(template: string | undefined, text: string): boolean {
  return template !== undefined && findSaid(template, text) !== undefined;
}

/** What stands in `text` where the template has its mark; "" where it has none; undefined where they differ. */
function findSaid(template: string, text: string): string | undefined {
  try {
    return compare(JSON.parse(template), JSON.parse(text));
  } catch {
    return undefined;
  }
}

// Ids and versions differ from run to run; these words say what a message is.
const TELLING = new Set([
  "type",
  "role",
  "method",
  "subtype",
  "behavior",
  "reply",
  "rejected",
  "kind",
  "outcome",
]);

function compare(template: unknown, actual: unknown, key = ""): string | undefined {
  if (template === MARK) return typeof actual === "string" ? actual : undefined;
  if (typeof template !== typeof actual || (template === null) !== (actual === null)) return undefined;
  if (typeof template !== "object" || template === null) {
    return TELLING.has(key) && template !== actual ? undefined : "";
  }
  let said = "";
  for (const [name, value] of Object.entries(template)) {
    const found = compare(value, (actual as Record<string, unknown>)[name], name);
    if (found === undefined) return undefined;
    said += found;
  }
  return said;
}
