import type { HarnessCommand } from "../port.ts";
import { isRecord, type Params } from "../rpc.ts";
import type { AcpDialect, Answer, NamelessAnswer } from "./dialect.ts";
import type { AcpAsk } from "./state.ts";

/** The result that answers a request of the agent's. */
export function toResult(dialect: AcpDialect, ask: AcpAsk, command: Answer): unknown {
  if (ask.kind !== "permission") return dialect.answer?.(ask, command);
  if (command.type !== "permission") return undefined;
  const option = KINDS[command.reply]
    .map((kind) => ask.options?.find((option) => option.kind === kind))
    .find((option) => option !== undefined);
  const { message } = command;
  return {
    outcome: option === undefined ? { outcome: "cancelled" } : { outcome: "selected", optionId: option.id },
    ...(message === undefined ? {} : { _meta: { message } }),
  };
}

/** The way back, without our id of the ask. */
export function toAnswer(dialect: AcpDialect, ask: AcpAsk, result: Params): NamelessAnswer | undefined {
  if (ask.kind !== "permission") return dialect.hear?.(ask, result);
  const { outcome, _meta: meta } = result;
  if (!isRecord(outcome)) return undefined;
  const option = ask.options?.find(({ id }) => id === outcome["optionId"]);
  const reply = option === undefined ? withdrawn(ask) : REPLIES[option.kind];
  if (reply === undefined) return undefined;
  const message = isRecord(meta) && typeof meta["message"] === "string" ? meta["message"] : undefined;
  return { type: "permission", reply, ...(message === undefined ? {} : { message }) };
}

type Permission = Extract<HarnessCommand, { type: "permission" }>;

const KINDS: Readonly<Record<Permission["reply"], readonly string[]>> = {
  once: ["allow_once", "allow_always"],
  always: ["allow_always", "allow_once"],
  reject: ["reject_once", "reject_always"],
};

const REPLIES: Readonly<Record<string, Permission["reply"]>> = {
  allow_once: "once",
  allow_always: "always",
  reject_once: "reject",
  reject_always: "reject",
};

/** A cancelled ask belongs to an interrupt, unless it was the only way to say no. */
function withdrawn(ask: AcpAsk): "reject" | undefined {
  return ask.options?.some(({ kind }) => kind.startsWith("reject")) ? undefined : "reject";
}
