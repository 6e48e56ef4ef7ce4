import { parseOthersJson } from "../../contract/index.ts";

/**
 * The schema gives the answer to a question one string. One choice is that string, several are their JSON array, and
 * the choices of several questions are an array of arrays. So the log alone holds the exact answer.
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
    // A free text that starts with a bracket.
  }
  return [[response]];
}

function areTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((text) => typeof text === "string");
}
