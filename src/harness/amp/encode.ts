import type { ContentPart, SpoolLine } from "../../contract/index.ts";
import { fromPartText, imagePart, partText } from "../content-part.ts";
import { type Fields, isRecord, parseObject } from "../fields.ts";
import type { HarnessCommand } from "../port.ts";
import { toPermission } from "../recording.ts";
import { findAsk, own, withoutAsk } from "../transcript.ts";
import { AFTER_TURN, type AmpState } from "./state.ts";

/** The line that carries a command to Amp, or to its gate. */
export function encode(state: AmpState, command: HarnessCommand): readonly string[] | undefined {
  switch (command.type) {
    case "prompt":
      return [JSON.stringify(toUser(command.content))];
    case "steer":
      return [JSON.stringify({ ...toUser(command.content), steer: true })];
    case "permission": {
      const id = own(state.transcript.asks, command.id)?.native;
      if (id === undefined) return [];
      const { reply, message } = command;
      return [JSON.stringify({ type: "permission", id, reply, message })];
    }
    case "interrupt":
      return [JSON.stringify({ type: "interrupt" })];
    case "retry":
    case "question":
    case "tool":
      return undefined;
  }
}

function toUser(content: readonly ContentPart[]): object {
  return { type: "user", message: { role: "user", content: content.map(toBlock) } };
}

const DATA_URL = /^data:([\w.+-]+\/[\w.+-]+);base64,(.*)$/s;

function toBlock(part: ContentPart): object {
  const [, mime, data] = (part.type === "image" && DATA_URL.exec(part.path)) || [];
  if (data !== undefined) return { type: "image", source: { type: "base64", media_type: mime, data } };
  return { type: "text", text: partText(part) };
}

/** The state after a line on stdin: a prompt begins a turn, an answer settles an ask. */
export function noteSent(state: AmpState, line: SpoolLine): AmpState {
  const command = toCommand(state, line);
  switch (command?.type) {
    case "prompt":
      return { ...state, ...AFTER_TURN, owed: state.owed, settled: false };
    case "steer":
      return { ...state, steering: state.steering + 1 };
    case "permission":
      return withoutAsk(state, command.id);
    default:
      return state;
  }
}

/** The command of a line on stdin: the inverse of `encode`. The `meta` line of a recording may have a prompt too. */
export function toCommand(state: AmpState, line: SpoolLine): HarnessCommand | undefined {
  if (line.dir !== "in" && line.dir !== "meta") return undefined;
  const value = parseObject(line);
  if (typeof value === "string") return undefined;
  if (line.dir === "meta") return fromArguments(value["argv"]);
  if (value["type"] === "user") return fromUser(value);
  if (value["type"] === "interrupt") return { type: "interrupt" };
  return value["type"] === "permission" ? fromPermission(state, value) : undefined;
}

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
    return [imagePart(source["data"], String(source["media_type"]))];
  }
  if (typeof text !== "string") return [];
  return [fromPartText(text)];
}

function fromPermission({ transcript }: AmpState, value: Fields): HarnessCommand | undefined {
  const [id] = findAsk(transcript, (ask) => ask.native === value["id"]) ?? [];
  return toPermission(id, value);
}
