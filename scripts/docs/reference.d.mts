import type { GeneratedPart } from "../architecture.mjs";

export function readReference(
  errors: Readonly<
    Record<string, { readonly status: number; readonly title: string; readonly retryable?: boolean }>
  >,
): GeneratedPart[];
