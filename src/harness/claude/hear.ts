import type { SpoolLine } from "../../contract/index.ts";
import { Scribe } from "../scribe.ts";
import { parseObject } from "../unparsed.ts";
import { toFields, toText } from "./fields.ts";
import type { Ask, ClaudeState } from "./state.ts";

/** What was said to the CLI, as far as its answers depend on it. */
export function hear(state: ClaudeState, line: SpoolLine): ClaudeState {
  const value = parseObject(line);
  if (typeof value === "string") return state;
  switch (value["type"]) {
    case "user": {
      const uuid = toText(value["uuid"]);
      const kind = state.inTurn ? ("steer" as const) : ("prompt" as const);
      const waiting = uuid === "" ? state.waiting : { ...state.waiting, [uuid]: kind };
      const begun = state.inTurn ? {} : { hasSpoken: false, isBegun: false };
      return { ...state, ...begun, waiting, isReady: true, isAddressed: true, inTurn: true, isIdle: false };
    }
    case "control_request": {
      if (toFields(value["request"])["subtype"] !== "interrupt") return state;
      const interrupts = [...state.interrupts, toText(value["request_id"])];
      return { ...state, interrupts, interruptCount: state.interruptCount + 1 };
    }
    case "control_response":
      return answered(state, toText(toFields(value["response"])["request_id"]));
    default:
      return state;
  }
}

/** An answer that was sent needs no translation any more. */
function answered(state: ClaudeState, request: string): ClaudeState {
  const scribe = new Scribe<Ask>(state.transcript);
  const id = scribe.findAsk((ask) => ask.request === request);
  if (id === undefined) return state;
  scribe.forgetAsk(id);
  return { ...state, transcript: scribe.transcript };
}
