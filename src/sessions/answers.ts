import { parseOthersJson } from "../contract/index.ts";

/**
 * Seed 004 gives a question's answer one string. One choice is that string; several are their JSON array, and
 * those of several questions an array of arrays, so that the log alone tells the agent exactly what was chosen.
 */
export function toResponse(answers: readonly (readonly string[])[]): string {
  const [first, ...others] = answers;
  if (others.length > 0) return JSON.stringify(answers);
  return first?.length === 1 ? (first[0] ?? "") : JSON.stringify(first ?? []);
}

export function fromResponse(response: string): string[][] {
  if (!response.startsWith("[")) return [[response]];
  try {
    const chosen: unknown = parseOthersJson(response);
    if (areTexts(chosen)) return [chosen];
    if (Array.isArray(chosen) && chosen.every(areTexts)) return chosen;
  } catch {
    // A free text that happens to start with a bracket.
  }
  return [[response]];
}

function areTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((text) => typeof text === "string");
}
