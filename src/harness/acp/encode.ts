import type { HarnessCommand } from "../port.ts";
import { own } from "../transcript.ts";
import { toResult } from "./asks.ts";
import type { AcpDialect } from "./dialect.ts";
import { partText, fromPartText } from "../part-text.ts";
import { isRecord } from "../fields.ts";
import { toNotification, toRequest, toResponse } from "../rpc.ts";
import { type AcpState, isRunning } from "./state.ts";
import type { ContentPart } from "../../contract/index.ts";

/** The lines that carry a command to the agent. */
export function encodeAcp(
  dialect: AcpDialect,
  state: AcpState,
  command: HarnessCommand,
): readonly string[] | undefined | "later" {
  const { session } = state;
  switch (command.type) {
    case "prompt":
      if (state.phase === "failed") return undefined;
      if (state.phase !== "ready" || session === undefined || dialect.awaits?.(state)) return "later";
      return [
        toRequest(command.inputId, "session/prompt", {
          sessionId: session,
          prompt: toBlocks(command.content),
        }),
      ];
    case "steer": {
      if (!dialect.steer || session === undefined || !isRunning(state)) return undefined;
      const params = dialect.steer.params(session, command.content.map(partText).join("\n"));
      return [toRequest(command.inputId, dialect.steer.method, params)];
    }
    case "interrupt":
      return session === undefined ? "later" : interruption(state, session);
    case "permission":
    case "question": {
      const ask = own(state.transcript.asks, command.id);
      if (!ask) return [];
      const result = toResult(dialect, ask, command);
      return result === undefined ? undefined : [toResponse(ask.rpc, result)];
    }
    case "tool":
    case "retry":
      return undefined;
  }
}

/** The protocol wants every open request of a cancelled turn to be answered as cancelled. */
function interruption({ transcript }: AcpState, session: string): string[] {
  const open = Object.values(transcript.asks).filter(({ kind }) => kind === "permission");
  return [
    toNotification("session/cancel", { sessionId: session }),
    ...open.map(({ rpc }) => toResponse(rpc, { outcome: { outcome: "cancelled" } })),
  ];
}

type Block = Readonly<Record<string, unknown>>;

/** A message as ACP's content blocks. Parts other than texts and inline images are named by their path. */
export function toBlocks(content: readonly ContentPart[]): Block[] {
  return content.map((part) => {
    if (part.type !== "image") return { type: "text", text: partText(part) };
    const data = /^data:([^;,]*);base64,(.*)$/s.exec(part.path);
    if (!data) return { type: "text", text: partText(part) };
    return { type: "image", mimeType: part.mime ?? data[1], data: data[2] };
  });
}

/** The inverse of `toBlocks`, for reading recordings. */
export function fromBlocks(blocks: unknown): ContentPart[] {
  if (!Array.isArray(blocks)) return [];
  return blocks.filter(isRecord).map((block): ContentPart => {
    const { type, text, mimeType, data, uri } = block;
    if (type === "image" && typeof data === "string") {
      const mime = typeof mimeType === "string" ? mimeType : "image/png";
      return { type: "image", path: `data:${mime};base64,${data}`, mime };
    }
    if (typeof uri === "string")
      return { type: "file_ref", path: uri.replace(/^file:\/\//, ""), action: "read" };
    if (typeof text !== "string") return { type: "json", json: block };
    return fromPartText(text);
  });
}
