import type { SpoolLine } from "../../contract/index.ts";
import type { Decoded } from "../port.ts";
import { isRecord, type Params, type RpcError, type RpcMessage, toRpcMessage } from "../rpc.ts";
import { own, without } from "../transcript.ts";
import { parseObject, unparsedFact } from "../unparsed.ts";
import type { AcpDialect } from "./dialect.ts";
import { endPrompt, failPrompt } from "./ending.ts";
import { Hand } from "./hand.ts";
import { failHandshake, hearHandshake, isHandshake } from "./handshake.ts";
import { askPermission } from "./permission.ts";
import { toRefusal } from "./request.ts";
import { hearSent } from "./sent.ts";
import { endSpeech } from "./speech.ts";
import type { AcpState } from "./state.ts";
import { hearUpdate, placeOf } from "./updates.ts";

/** One line of an ACP agent as facts. Never throws, whatever the bytes. */
export function decodeAcp(dialect: AcpDialect, state: AcpState, line: SpoolLine): Decoded<AcpState> {
  if (line.dir === "in") return { state: hearSent(dialect, state, line), facts: [] };
  if (line.dir !== "out") return { state, facts: [] };
  const value = parseObject(line);
  const message = typeof value === "string" ? undefined : toRpcMessage(value);
  if (typeof value === "string") return { state, facts: [unparsedFact(line, value)] };
  const hand = new Hand(dialect, state);
  if (!message) {
    const trouble = hearPrinted(hand, value);
    if (trouble !== undefined) hand.scribe.unparsed(line, trouble);
    return hand.done();
  }
  dialect.before?.(hand, message);
  const trouble = hear(hand, message);
  if (trouble !== undefined) hand.scribe.unparsed(line, trouble);
  return hand.done();
}

/** A line of a mode without a protocol: recordings have them. */
function hearPrinted(hand: Hand, value: Params): string | undefined {
  const form = hand.dialect.forms?.find((form) => form.isOf(value));
  return form ? form.hear(hand, value) : "the line is no JSON-RPC message";
}

function hear(hand: Hand, message: RpcMessage): string | undefined {
  switch (message.kind) {
    case "notification":
      if (message.method === "session/update") return hearUpdate(hand, message.params);
      if (hand.dialect.extension?.(hand, message)) return undefined;
      // `$/…` belongs to the transport, `_…` to a private agreement that nobody made with us.
      return /^[$_]/.test(message.method)
        ? undefined
        : `an unknown notification: ${message.method.slice(0, 60)}`;
    case "request":
      return hearRequest(hand, message);
    case "result":
      return hearResult(hand, message.id, message.result);
    case "error":
      return hearError(hand, message.id, message.error);
  }
}

function hearRequest(hand: Hand, message: Extract<RpcMessage, { kind: "request" }>): string | undefined {
  const { id, method, params } = message;
  if (method === "session/request_permission") {
    const place = placeOf(hand, params);
    endSpeech(hand, place);
    if (askPermission(hand, id, { params, place })) return undefined;
    hand.replies.push(toRefusal(id, "the request could not be read"));
    return "a malformed session/request_permission";
  }
  if (hand.dialect.extension?.(hand, message)) return undefined;
  hand.replies.push(toRefusal(id, `${method} is not offered`));
  return /^(fs|terminal)\//.test(method) ? undefined : `an unknown request: ${method.slice(0, 60)}`;
}

function hearResult(hand: Hand, id: string | number, result: unknown): string | undefined {
  const method = answered(hand, id);
  if (method === undefined) return undefined;
  if (method === "session/prompt") endPrompt(hand, String(id), isRecord(result) ? result : NOTHING);
  if (isHandshake(hand, method)) hearHandshake(hand, method, result);
  return undefined;
}

function hearError(hand: Hand, id: string | number, error: RpcError): string | undefined {
  const method = answered(hand, id);
  if (method === undefined) return undefined;
  if (method === "session/prompt") failPrompt(hand, error);
  if (isHandshake(hand, method)) failHandshake(hand, method, error);
  return undefined;
}

const NOTHING: Params = {};

/** What we had asked; a second answer to the same request is none. */
function answered(hand: Hand, id: string | number): string | undefined {
  const key = String(id);
  const method = own(hand.state.sent, key);
  if (method !== undefined) hand.note({ sent: without(hand.state.sent, key) });
  return method;
}
