import type { ContentPart } from "../../contract/index.ts";
import { exitPart } from "../content-part.ts";
import { isRecord, toFields, toRecords } from "../fields.ts";
import { type Origin, own, without } from "../transcript.ts";
import { bindChild } from "./sessions.ts";
import type { OpencodeReading, Part, Properties } from "./state.ts";

/** The state of a tool call: `pending`, `running`, `completed` or `error`. */
export function readTool(reading: OpencodeReading, part: Part, origin: Origin): string | undefined {
  const { callID, tool, state } = part;
  if (typeof callID !== "string" || typeof tool !== "string" || !isRecord(state))
    return "a tool's part without its call";
  const name = toToolName(tool, state["input"], reading.state.servers);
  switch (state["status"]) {
    case "pending":
      return void reading.scribe.startCall(callID, { name, ...origin });
    case "running":
      return void run(reading, callID, { name, ...origin }, state);
    case "completed":
    case "error":
      run(reading, callID, { name, ...origin }, state);
      end(reading, part, callID, state);
      return undefined;
    default:
      return `a tool that is ${JSON.stringify(state["status"])}`;
  }
}

function run(
  reading: OpencodeReading,
  call: string,
  tool: Origin & { name: string },
  { input, metadata }: Properties,
): void {
  reading.scribe.call(call, { ...tool, input: input ?? {} });
  const known = own(reading.work.calls, call);
  const { output, sessionId } = toFields(metadata);
  if (!known) reading.changeWork({ calls: { ...reading.work.calls, [call]: { input, shown: "" } } });
  if (typeof sessionId === "string" && tool.name === "task") bindChild(reading, sessionId, call);
  if (typeof output === "string") show(reading, call, output);
}

/** Each update has all output so far; a long output has lost its beginning. */
function show(reading: OpencodeReading, call: string, output: string): void {
  const running = own(reading.work.calls, call);
  if (!running || output === running.shown || output === "") return;
  reading.scribe.output(call, unshown(running.shown, output));
  reading.changeWork({ calls: { ...reading.work.calls, [call]: { ...running, shown: output } } });
}

const OVERLAP = 200;

function unshown(shown: string, output: string): string {
  if (output.startsWith(shown)) return output.slice(shown.length);
  const tail = shown.slice(-OVERLAP);
  const at = output.lastIndexOf(tail);
  return at < 0 ? output : output.slice(at + tail.length);
}

function end(reading: OpencodeReading, part: Part, call: string, state: Properties): void {
  const { status, input, output, error, attachments } = state;
  const metadata = toFields(state["metadata"]);
  const text = String((status === "error" ? error : output) ?? "");
  const exit = metadata["exit"];
  const failed = status === "error" || part["tool"] === "invalid" || (exit !== undefined && exit !== 0);
  const shown = own(reading.work.calls, call)?.shown ?? "";
  if (shown !== "" && text.startsWith(shown)) reading.scribe.output(call, text.slice(shown.length));
  reading.scribe.result(call, {
    output: text,
    failed,
    content: [
      ...(failed ? [] : fileRefs(String(part["tool"]), input, metadata)),
      ...toRecords(attachments).flatMap((file) => toImage(file) ?? []),
      ...exitPart(exit),
    ],
  });
  reading.changeWork({ calls: without(reading.work.calls, call) });
  reading.markDone(part.id);
}

export function toImage({ mime, url }: Properties): ContentPart | undefined {
  if (typeof mime !== "string" || !mime.startsWith("image/") || typeof url !== "string") return undefined;
  return { type: "image", path: url, mime };
}

type FileRef = Extract<ContentPart, { type: "file_ref" }>;

/** References to the files that a tool read or wrote. */
function fileRefs(tool: string, input: unknown, metadata: Properties): FileRef[] {
  const path = isRecord(input) ? input["filePath"] : undefined;
  if (Array.isArray(metadata["files"])) return metadata["files"].filter(isRecord).flatMap(toPatched);
  if (typeof path !== "string") return [];
  if (tool === "read") return [{ type: "file_ref", path, action: "read" }];
  if (tool === "write") return [{ type: "file_ref", path, action: "write" }];
  const { filediff } = metadata;
  const diff = metadata["diff"] ?? (isRecord(filediff) ? filediff["patch"] : undefined);
  return tool === "edit" || tool === "multiedit" ? [toPatch(path, diff)] : [];
}

/** One of several files of a patch. */
function toPatched({ filePath, movePath, file, type, diff, patch }: Properties): FileRef[] {
  const path = [movePath, filePath, file].find((path) => typeof path === "string");
  if (typeof path !== "string") return [];
  return type === "add" ? [{ type: "file_ref", path, action: "write" }] : [toPatch(path, diff ?? patch)];
}

function toPatch(path: string, diff: unknown): FileRef {
  if (typeof diff !== "string" || diff === "") return { type: "file_ref", path, action: "patch" };
  // An index line and a rule precede the diff.
  return { type: "file_ref", path, action: "patch", diff: diff.replace(/^Index: .*\n=+\n/, "") };
}

/** A tool's common name. A call of an unknown tool keeps the name that the model used. */
export function toToolName(tool: string, input: unknown, servers: Readonly<Record<string, string>>): string {
  if (tool === "invalid" && isRecord(input) && typeof input["tool"] === "string") return input["tool"];
  let longest = "";
  for (const prefix of Object.keys(servers)) {
    if (tool.startsWith(prefix) && prefix.length > longest.length) longest = prefix;
  }
  return longest === "" ? tool : `mcp__${servers[longest]}__${tool.slice(longest.length)}`;
}
