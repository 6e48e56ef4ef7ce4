import type { ContentPart, SpoolLine } from "../../contract/index.ts";
import { parseObject } from "../line.ts";
import { fromPartText } from "../part-text.ts";
import type { HarnessCommand } from "../port.ts";
import { isRecord } from "../fields.ts";
import { without } from "../transcript.ts";
import { AFTER_TURN, type AmpState } from "./state.ts";

/** The state after a line on stdin: a prompt begins a turn, an answer settles an ask. */
export function noteSent(state: AmpState, line: SpoolLine): AmpState {
  const command = toCommand(state, line);
  switch (command?.type) {
    case "prompt":
      return { ...state, ...AFTER_TURN, owed: state.owed, settled: false };
    case "steer":
      return { ...state, steering: state.steering + 1 };
    case "permission": {
      const { transcript } = state;
      return { ...state, transcript: { ...transcript, asks: without(transcript.asks, command.id) } };
    }
    default:
      return state;
  }
}

/** The command that a line on stdin carries: the inverse of `encode`. A recording's `meta` may have a prompt too. */
export function toCommand(state: AmpState, line: SpoolLine): HarnessCommand | undefined {
  if (line.dir !== "in" && line.dir !== "meta") return undefined;
  const value = parseObject(line);
  if (typeof value === "string") return undefined;
  if (line.dir === "meta") return fromArguments(value["argv"]);
  if (value["type"] === "user") return fromUser(value);
  if (value["type"] === "interrupt") return { type: "interrupt" };
  return value["type"] === "permission" ? fromPermission(state, value) : undefined;
}

type Fields = Readonly<Record<string, unknown>>;

function fromArguments(argv: unknown): HarnessCommand | undefined {
  if (!Array.isArray(argv)) return undefined;
  const text: unknown = argv[argv.findIndex((word) => word === "--execute" || word === "-x") + 1];
  if (typeof text !== "string" || text.startsWith("-") || text === argv[0]) return undefined;
  return { type: "prompt", inputId: "", content: [{ type: "text", text }] };
}

function fromUser({ message, steer }: Fields): HarnessCommand | undefined {
  const blocks = isRecord(message) ? message["content"] : undefined;
  if (!Array.isArray(blocks)) return undefined;
  const content = blocks.filter(isRecord).flatMap(toPart);
  return { type: steer === true ? "steer" : "prompt", inputId: "", content };
}

function toPart({ type, text, source }: Fields): ContentPart[] {
  if (type === "image" && isRecord(source) && typeof source["data"] === "string") {
    const mime = String(source["media_type"]);
    return [{ type: "image", path: `data:${mime};base64,${source["data"]}`, mime }];
  }
  if (typeof text !== "string") return [];
  return [fromPartText(text)];
}

function fromPermission(
  { transcript }: AmpState,
  { id: native, reply, message }: Fields,
): HarnessCommand | undefined {
  const id = Object.entries(transcript.asks).find(([, ask]) => ask.native === native)?.[0];
  if (id === undefined || (reply !== "once" && reply !== "always" && reply !== "reject")) return undefined;
  return { type: "permission", id, reply, ...(typeof message === "string" ? { message } : {}) };
}
