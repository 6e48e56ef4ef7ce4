import { isRecord, type Params, type RpcId } from "../rpc.ts";
import type { PermissionMetadata } from "../scribe.ts";
import { own } from "../transcript.ts";
import type { Hand } from "./hand.ts";
import { parentOf } from "./speech.ts";
import type { AcpAsk, ToolNotes } from "./state.ts";
import { seeTool, settleTool } from "./tools.ts";

/** `session/request_permission`: the ask carries the call, which may not have been announced. */
export function askPermission(
  hand: Hand,
  rpc: RpcId,
  { params, place }: { params: Params; place: string },
): boolean {
  const { toolCall, options } = params;
  if (!isRecord(toolCall) || !Array.isArray(options)) return false;
  if (!seeTool(hand, { ...toolCall, status: undefined }, { place, isUpdate: true })) return false;
  const call = String(toolCall["toolCallId"]);
  settleTool(hand, call, place);
  const notes = own(hand.state.tools, call);
  if (!notes) return false;
  const offered = options.filter(isRecord).map(({ optionId, kind, name }) => ({
    id: String(optionId),
    kind: String(kind),
    name: String(name),
  }));
  const ask: AcpAsk = {
    rpc,
    kind: "permission",
    call,
    options: offered.map(({ id, kind }) => ({ id, kind })),
  };
  const metadata = toMetadata(call, notes, offered);
  hand.scribe.askPermission(ask, { action: notes.name, metadata, parent: parentOf(place) });
  return true;
}

function toMetadata(call: string, notes: ToolNotes, options: readonly unknown[]): PermissionMetadata {
  return {
    call_id: call,
    name: notes.name,
    input: notes.input ?? {},
    kind: kindOf(notes),
    ...(notes.title === "" ? {} : { title: notes.title }),
    ...(notes.files.length === 0 ? {} : { files: notes.files }),
    options,
  };
}

function kindOf({ name, kind }: ToolNotes): PermissionMetadata["kind"] {
  if (name.startsWith("mcp__")) return "mcp";
  if (/exit_?plan_?mode/i.test(name) || kind === "switch_mode") return "plan";
  if (kind === "edit" || kind === "delete" || kind === "move") return "edit";
  if (kind === "read" || kind === "search") return "read";
  return kind === "execute" || kind === "fetch" ? kind : "other";
}
