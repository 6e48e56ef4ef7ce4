import { isRecord } from "../../contract/index.ts";
import type { AgUiState, Ask, Shared } from "./state.ts";

/** There is one schema for all permissions and one for all questions, because clients compare their hashes. */
export const PERMISSION_SCHEMA = {
  type: "object",
  properties: {
    approved: { type: "boolean" },
    remember: { type: "boolean", description: "do not ask again for this in the session" },
    message: { type: "string", description: "told to the agent with a refusal" },
  },
  required: ["approved"],
} as const;

export const QUESTION_SCHEMA = {
  type: "object",
  properties: { answer: { type: "string" } },
  required: ["answer"],
} as const;

/** SHA-256 of each schema in canonical JSON, as TanStack's client computes it. A test checks them. */
export const SCHEMA_HASHES = {
  permission: "sha256:fb77ff869bcbb710a5fc703ce486f315f95afae4d11dfd24359dd2a48b3b181f",
  question: "sha256:b9c62f6f1b3d843482109e48e44e89ad4ebfff58c59664200ce3200faddcb6e4",
} as const;

/** The metadata key that TanStack's client needs to answer an interrupt. */
const BINDING_KEY = "tanstack:interruptBinding";

export interface AgUiInterrupt {
  readonly id: string;
  readonly reason: string;
  readonly message: string;
  readonly toolCallId?: string;
  readonly responseSchema: object;
  readonly subagentRunId?: string;
  readonly metadata: Readonly<Record<string, unknown>>;
}

export function toInterrupt(
  id: string,
  ask: Ask & { readonly kind: "permission" | "question" },
  runId: string,
): AgUiInterrupt {
  const { kind, prompt, callId, options, input, subagent } = ask;
  return {
    id,
    reason: kind === "permission" ? "tool_call" : "input_required",
    message: kind === "permission" ? `The agent asks to use "${prompt}".` : prompt,
    ...(callId === undefined ? {} : { toolCallId: callId }),
    responseSchema: kind === "permission" ? PERMISSION_SCHEMA : QUESTION_SCHEMA,
    ...(subagent === undefined ? {} : { subagentRunId: subagent }),
    metadata: {
      sluice: {
        kind,
        prompt,
        ...(options === undefined ? {} : { options }),
        ...(input === undefined ? {} : { input }),
      },
      [BINDING_KEY]: {
        v: 1,
        kind: "generic",
        interruptId: id,
        interruptedRunId: runId,
        generation: 0,
        responseSchemaHash: SCHEMA_HASHES[kind],
      },
    },
  };
}

/** Our key in the state that AG-UI shares with the client; every other key is the client's. */
export const STATE_KEY = "sluice";

/** The shared state: the client's own keys, and ours. */
export function toSnapshot({ clientState }: Pick<AgUiState, "clientState">, shared: Shared): object {
  return { ...clientState, [STATE_KEY]: shared };
}

/**
 * Whether a run starts with a snapshot: only if the client has a copy of our state, from this turn or an earlier one.
 */
export function needsSnapshot({ shared }: AgUiState, given: unknown): boolean {
  return shared !== null || (isRecord(given) && Object.hasOwn(given, STATE_KEY));
}

export function toShared({ asks }: Pick<AgUiState, "asks">, status: Shared["status"]): Shared {
  const pending = Object.entries(asks).flatMap(([id, ask]) => {
    if (ask.kind === "tool") return [];
    const { reason, message } = toInterrupt(id, { ...ask, kind: ask.kind }, "");
    return [{ id, reason, message }];
  });
  return { status, pending };
}
