import { isRecord } from "../fields.ts";
import type { HarnessCommand } from "../port.ts";
import type { Params, RpcId } from "../rpc.ts";
import type { PermissionMetadata } from "../scribe.ts";
import { own } from "../transcript.ts";
import type { AcpDialect, AcpReading, Answer, AnswerBody } from "./dialect.ts";
import { parentOf } from "./messages.ts";
import type { AcpAsk, ToolNotes } from "./state.ts";
import { readTool, settleTool } from "./tools.ts";

/** `session/request_permission`. The request carries the call, which may be new. */
export function askPermission(
  reading: AcpReading,
  rpc: RpcId,
  { params, origin }: { params: Params; origin: string },
): boolean {
  const { toolCall, options } = params;
  if (!isRecord(toolCall) || !Array.isArray(options)) return false;
  if (!readTool(reading, { ...toolCall, status: undefined }, { origin, isUpdate: true })) return false;
  const call = String(toolCall["toolCallId"]);
  settleTool(reading, call, origin);
  const notes = own(reading.state.tools, call);
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
  reading.scribe.askPermission(ask, { action: notes.name, metadata, parent: parentOf(origin) });
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

/** The result for a request of the agent. */
export function toResult(dialect: AcpDialect, ask: AcpAsk, command: Answer): unknown {
  if (ask.kind !== "permission") return dialect.answer?.(ask, command);
  if (command.type !== "permission") return undefined;
  const option = KINDS[command.reply]
    .map((kind) => ask.options?.find((option) => option.kind === kind))
    .find((option) => option !== undefined);
  const { message } = command;
  return {
    outcome: option === undefined ? { outcome: "cancelled" } : { outcome: "selected", optionId: option.id },
    ...(message === undefined ? {} : { _meta: { message } }),
  };
}

/** The inverse of `toResult`, without our id of the ask. */
export function toAnswer(dialect: AcpDialect, ask: AcpAsk, result: Params): AnswerBody | undefined {
  if (ask.kind !== "permission") return dialect.fromAnswer?.(ask, result);
  const { outcome, _meta: meta } = result;
  if (!isRecord(outcome)) return undefined;
  const option = ask.options?.find(({ id }) => id === outcome["optionId"]);
  const reply = option === undefined ? replyOfCancelled(ask) : REPLIES[option.kind];
  if (reply === undefined) return undefined;
  const message = isRecord(meta) && typeof meta["message"] === "string" ? meta["message"] : undefined;
  return { type: "permission", reply, ...(message === undefined ? {} : { message }) };
}

type Permission = Extract<HarnessCommand, { type: "permission" }>;

const KINDS: Readonly<Record<Permission["reply"], readonly string[]>> = {
  once: ["allow_once", "allow_always"],
  always: ["allow_always", "allow_once"],
  reject: ["reject_once", "reject_always"],
};

const REPLIES: Readonly<Record<string, Permission["reply"]>> = {
  allow_once: "once",
  allow_always: "always",
  reject_once: "reject",
  reject_always: "reject",
};

/**
 * A cancelled ask belongs to an interrupt and has no reply. If no option rejects, the cancellation is the rejection.
 */
function replyOfCancelled(ask: AcpAsk): "reject" | undefined {
  return ask.options?.some(({ kind }) => kind.startsWith("reject")) ? undefined : "reject";
}
