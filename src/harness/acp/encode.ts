import type { HarnessCommand } from "../port.ts";
import { own } from "../transcript.ts";
import { toResult } from "./answers.ts";
import type { AcpDialect } from "./dialect.ts";
import { partText } from "../partText.ts";
import { toBlocks } from "./prompt.ts";
import { toNotification, toRequest, toResponse } from "./request.ts";
import { isRunning } from "./sent.ts";
import type { AcpState } from "./state.ts";

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
