import type { Ask } from "./state.ts";

/** One shape for every permission and one for every question: clients compare the hash of what they were given. */
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

/** SHA-256 of each schema in canonical JSON, as TanStack's client computes it; a test keeps them true. */
export const SCHEMA_HASHES = {
  permission: "sha256:fb77ff869bcbb710a5fc703ce486f315f95afae4d11dfd24359dd2a48b3b181f",
  question: "sha256:b9c62f6f1b3d843482109e48e44e89ad4ebfff58c59664200ce3200faddcb6e4",
} as const;

/** What makes an interrupt one that TanStack's client can answer. */
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
  const { kind, prompt, callId, options, input, owner } = ask;
  return {
    id,
    reason: kind === "permission" ? "tool_call" : "input_required",
    message: kind === "permission" ? `The agent asks to use "${prompt}".` : prompt,
    ...(callId === undefined ? {} : { toolCallId: callId }),
    responseSchema: kind === "permission" ? PERMISSION_SCHEMA : QUESTION_SCHEMA,
    ...(owner === undefined ? {} : { subagentRunId: owner }),
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
