import { own } from "../../contract/ownKeys.ts";
import type { EventOf } from "../../contract/index.ts";
import { isRecord } from "./payload.ts";
import { tellStateDelta } from "./shared-state.ts";
import { type Ask, without } from "./state.ts";
import type { Teller } from "./teller.ts";

/** What the agent asks is kept until it is answered, or until the turn waits for it: then it is an interrupt. */
export function keepPermission(teller: Teller, { data }: EventOf<"permission.requested">): void {
  const metadata = isRecord(data.metadata) ? data.metadata : {};
  const given = metadata["call_id"];
  const callId = typeof given === "string" ? given : undefined;
  const call = callId === undefined ? undefined : own(teller.state.calls, callId);
  keep(teller, data.permission_id, {
    kind: "permission",
    prompt: data.action,
    ...(call === undefined || callId === undefined ? {} : { callId: call.alias ?? callId }),
    ...(metadata["input"] === undefined ? {} : { input: metadata["input"] }),
    ...(call?.owner === undefined ? {} : { owner: call.owner }),
  });
}

export function keepQuestion(teller: Teller, { data }: EventOf<"question.requested">): void {
  keep(teller, data.question_id, { kind: "question", prompt: data.prompt, options: data.options });
}

export function forgetAsk(teller: Teller, id: string): void {
  teller.change({ asks: without(teller.state.asks, id) });
  tellStateDelta(teller, "running");
}

function keep(teller: Teller, id: string, ask: Ask): void {
  teller.change({ asks: { ...teller.state.asks, [id]: ask } });
  tellStateDelta(teller, "running");
}
