import { isRecord } from "../rpc.ts";
import type { Place } from "../pen.ts";
import { own, without } from "../transcript.ts";
import type { Properties } from "./events.ts";
import { fileRefs } from "./files.ts";
import type { Page } from "./page.ts";
import { markDone, type Part, toImage } from "./parts.ts";
import { bindChild } from "./sessions.ts";
import { toToolName } from "./tool-name.ts";

/** A tool's call, from its first mention to its result: `pending`, `running`, `completed` or `error`. */
export function readTool(page: Page, part: Part, place: Place): string | undefined {
  const { callID, tool, state } = part;
  if (typeof callID !== "string" || typeof tool !== "string" || !isRecord(state))
    return "a tool's part without its call";
  const name = toToolName(tool, state["input"], page.state.servers);
  switch (state["status"]) {
    case "pending":
      page.scribe.startCall(callID, { name, ...place });
      return undefined;
    case "running":
      run(page, callID, { name, ...place }, state);
      return undefined;
    case "completed":
    case "error":
      run(page, callID, { name, ...place }, state);
      end(page, part, callID, state);
      return undefined;
    default:
      return `a tool that is ${JSON.stringify(state["status"])}`;
  }
}

function run(
  page: Page,
  call: string,
  tool: Place & { name: string },
  { input, metadata }: Properties,
): void {
  page.scribe.call(call, { ...tool, input: input ?? {} });
  const known = own(page.work.calls, call);
  const { output, sessionId } = isRecord(metadata) ? metadata : {};
  if (!known) page.setWork({ calls: { ...page.work.calls, [call]: { input, shown: "" } } });
  if (typeof sessionId === "string" && tool.name === "task") bindChild(page, sessionId, call);
  if (typeof output === "string") show(page, call, output);
}

/** Output comes as all of it so far, of which a long one has lost its beginning. */
function show(page: Page, call: string, output: string): void {
  const running = own(page.work.calls, call);
  if (!running || output === running.shown || output === "") return;
  page.scribe.output(call, unshown(running.shown, output));
  page.setWork({ calls: { ...page.work.calls, [call]: { ...running, shown: output } } });
}

const OVERLAP = 200;

function unshown(shown: string, output: string): string {
  if (output.startsWith(shown)) return output.slice(shown.length);
  const tail = shown.slice(-OVERLAP);
  const at = output.lastIndexOf(tail);
  return at < 0 ? output : output.slice(at + tail.length);
}

function end(page: Page, part: Part, call: string, state: Properties): void {
  const { status, input, output, error, attachments } = state;
  const metadata = isRecord(state["metadata"]) ? state["metadata"] : {};
  const text = String((status === "error" ? error : output) ?? "");
  const exit = metadata["exit"];
  const failed = status === "error" || part["tool"] === "invalid" || (exit !== undefined && exit !== 0);
  const shown = own(page.work.calls, call)?.shown ?? "";
  if (shown !== "" && text.startsWith(shown)) page.scribe.output(call, text.slice(shown.length));
  page.scribe.result(call, {
    output: text,
    failed,
    content: [
      ...(failed ? [] : fileRefs(String(part["tool"]), input, metadata)),
      ...(Array.isArray(attachments)
        ? attachments.filter(isRecord).flatMap((file) => toImage(file) ?? [])
        : []),
      ...(typeof exit === "number" && exit !== 0
        ? [{ type: "json" as const, json: { exit_code: exit } }]
        : []),
    ],
  });
  page.setWork({ calls: without(page.work.calls, call) });
  markDone(page, part.id);
}
