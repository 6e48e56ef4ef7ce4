/** Failures that only the scripted model can act out: the scripted agent has no model's wire to break. */
export const MODEL_FAILURES = [
  "server_error",
  "unauthorized",
  "context_length",
  "cut",
  "garbage",
  "empty",
] as const;
export type ModelFailureKind = (typeof MODEL_FAILURES)[number];

export function isModelFailure(kind: string): kind is ModelFailureKind {
  return (MODEL_FAILURES as readonly string[]).includes(kind);
}
