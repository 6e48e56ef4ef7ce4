import type { ContentPart, SpoolLine } from "../../contract/index.ts";
import { fromPartText } from "../partText.ts";
import type { HarnessCommand } from "../port.ts";
import { isRecord } from "../rpc.ts";
import { parseObject } from "../unparsed.ts";
import type { AmpState } from "./state.ts";

/** The way back from `encode`. A prompt may also stand on the command line, which a recording's `meta` holds. */
export function overhear(state: AmpState, line: SpoolLine): HarnessCommand | undefined {
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
