import type { SpoolLine } from "../../contract/index.ts";
import type { Decoded } from "../port.ts";
import { isRecord } from "../rpc.ts";
import type { Properties } from "./events.ts";
import { endingOf, toNativeError } from "./failure.ts";
import { Page } from "./page.ts";
import { type Part, toUsage } from "./parts.ts";
import { tellSession } from "./sessions.ts";
import type { NativeError, OpencodeState } from "./state.ts";
import { readTool } from "./tools.ts";

/** A line of `opencode run --format json`: whole parts, one after the other. */
export function readRunLine(page: Page, line: Properties & { readonly type: string }): string | undefined {
  const { type, sessionID, part } = line;
  if (page.state.session === undefined) page.set({ session: String(sessionID) });
  tellSession(page);
  if (!page.state.run) page.set({ run: {} });
  if (type === "error") {
    const failure = toNativeError(line["error"]);
    return void page.set({ run: { ...page.state.run, ...(failure ? { failure } : {}) } });
  }
  if (!isRecord(part) || typeof part["id"] !== "string") return `a line ${type} without a part`;
  return readRunPart(page, part as Part);
}

function readRunPart(page: Page, part: Part): string | undefined {
  const request = part.messageID;
  switch (part.type) {
    case "step-start":
      page.scribe.startModel(request);
      return undefined;
    case "text":
    case "reasoning":
      page.scribe.sayWhole(part.id, String(part["text"] ?? ""), { kind: part.type });
      return undefined;
    case "tool":
      return readTool(page, part, {});
    case "step-finish":
      page.scribe.endModel(request, { usage: toUsage(part) });
      return undefined;
    default:
      return undefined;
  }
}

/** The one turn of a run ends with its process. */
export function endRun(state: OpencodeState, { exit }: SpoolLine): Decoded<OpencodeState> {
  const { run } = state;
  if (!run) return { state, facts: [] };
  const page = new Page(state);
  const died: NativeError = {
    name: "UnknownError",
    message: `opencode run ended with code ${exit?.code ?? "unknown"}`,
  };
  const failure = run.failure ?? (exit?.code === 0 ? undefined : died);
  const ending = failure
    ? endingOf(failure)
    : { status: "completed" as const, stop_reason: "end_turn" as const };
  if (ending.error)
    page.scribe.add({ type: "error", data: { code: ending.error.code, message: ending.error.message } });
  page.scribe.endTurn(ending);
  page.forget("run");
  return page.decoded;
}
