import type { ContentPart } from "../../contract/index.ts";
import type { HarnessCommand } from "../port.ts";
import { own } from "../transcript.ts";
import type { AmpState } from "./state.ts";
import { partText } from "../part-text.ts";

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
      return [
        JSON.stringify({ type: "permission", id, reply, ...(message === undefined ? {} : { message }) }),
      ];
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
