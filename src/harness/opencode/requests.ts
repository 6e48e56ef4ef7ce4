import type { SpoolLine } from "../../contract/index.ts";
import { without } from "../transcript.ts";
import { parseRoute } from "./request.ts";
import type { OpencodeState } from "./state.ts";
import { mcpPrefix } from "./tool-name.ts";

/** What a request that was sent changes: a turn begins, an answer needs no carrying any more. */
export function readRequest(state: OpencodeState, line: SpoolLine): OpencodeState {
  const route = parseRoute(line);
  switch (route?.to) {
    case "prompt":
    case "summarize":
      return prompt(state, route.session);
    case "abort":
      if (!state.turn || route.session !== state.session) return state;
      return { ...state, turn: { ...state.turn, isInterrupted: true } };
    case "permission":
    case "answer":
    case "reject":
      return forget(state, route.ask);
    case "mcp": {
      const { name } = route.body;
      if (typeof name !== "string") return state;
      return { ...state, servers: { ...state.servers, [mcpPrefix(name)]: name } };
    }
    default:
      return state;
  }
}

/** The session that is spoken to is the one that the turns are about, until it is another's turn. */
function prompt(state: OpencodeState, session: string): OpencodeState {
  const { turn } = state;
  if (turn && session !== state.session) return state;
  if (turn) return { ...state, turn: { ...turn, awaited: turn.awaited + 1 } };
  const begun = { awaited: 1, hasBegun: false, isInterrupted: false, isIdle: false };
  return { ...state, session, isTold: state.isTold && session === state.session, turn: begun };
}

function forget(state: OpencodeState, native: string): OpencodeState {
  const { asks } = state.transcript;
  const id = Object.entries(asks).find(([, ask]) => ask.id === native)?.[0];
  if (id === undefined) return state;
  return { ...state, transcript: { ...state.transcript, asks: without(asks, id) } };
}
