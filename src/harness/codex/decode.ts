import type { SpoolLine } from "../../contract/index.ts";
import type { Decoded } from "../port.ts";
import { toRpcMessage } from "../rpc.ts";
import { Scribe } from "../scribe.ts";
import { parseObject } from "../unparsed.ts";
import { hearRequest } from "./asks.ts";
import { hearExec } from "./exec.ts";
import { hearNotification } from "./notifications.ts";
import type { Reading } from "./reading.ts";
import { hearRefusal, hearResult } from "./responses.ts";
import { noteSent } from "./sent.ts";
import type { Ask, CodexState } from "./state.ts";

/** One line of Codex as facts: of the app-server, or of `codex exec --json`. Never throws, whatever the bytes. */
export function decode(state: CodexState, line: SpoolLine): Decoded<CodexState> {
  if (line.dir === "in") return { state: noteSent(state, line), facts: [] };
  if (line.dir !== "out") return { state, facts: [] };
  const scribe = new Scribe<Ask>(state.transcript);
  const reading: Reading = { state, scribe, replies: [] };
  const value = parseObject(line);
  const why = typeof value === "string" ? value : hear(reading, value);
  if (why !== undefined) scribe.unparsed(line, why);
  const next = { ...reading.state, transcript: scribe.transcript };
  return {
    state: next,
    facts: scribe.facts,
    ...(reading.replies.length === 0 ? {} : { replies: reading.replies }),
  };
}

/** Undefined, or why nothing could be made of it. */
function hear(reading: Reading, value: Readonly<Record<string, unknown>>): string | undefined {
  const message = toRpcMessage(value);
  if (message === undefined)
    return typeof value["type"] === "string" ? hearExec(reading, value) : "no message of Codex";
  switch (message.kind) {
    case "notification":
      return hearNotification(reading, message.method, message.params);
    case "request":
      if (hearRequest(reading, message.id, message.method, message.params)) return undefined;
      return `an unknown request ${message.method}`;
    case "result":
      return hearResult(reading, message.id, message.result)
        ? undefined
        : "an answer to nothing that was asked";
    case "error":
      return hearRefusal(reading, message.id, message.error)
        ? undefined
        : "an answer to nothing that was asked";
  }
}
