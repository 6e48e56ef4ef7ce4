import type { Harness } from "../port.ts";
import { decodeAcp } from "./decode.ts";
import type { AcpDialect } from "./dialect.ts";
import { encodeAcp } from "./encode.ts";
import { greet } from "./handshake.ts";
import { check, detect, launch } from "./launch.ts";
import { toAcpCommand } from "./sent.ts";
import { type AcpState, initialState } from "./state.ts";

type Speech = Pick<Harness<AcpState>, "initial" | "greet" | "decode" | "encode" | "overhear">;

/** The protocol's side of a harness; how the agent is started is the other. */
export function speakAcp(dialect: AcpDialect): Speech {
  return {
    initial: initialState,
    greet,
    decode: (state, line) => decodeAcp(dialect, state, line),
    encode: (state, command) => encodeAcp(dialect, state, command),
    overhear: (state, line) => toAcpCommand(dialect, state, line),
  };
}

/** Any agent that speaks the Agent Client Protocol, by the command that starts it. */
export const acp: Harness<AcpState> = {
  id: "acp",
  title: "ACP agent",
  detect,
  check,
  launch,
  ...speakAcp({}),
  lacks: ["questions", "subagents", "retries"],
};
