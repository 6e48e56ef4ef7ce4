/**
 * Seed 004 gives a question's answer one string. One choice is that string; several are their JSON array,
 * so that the log alone still tells the agent exactly what was chosen.
 */
export function toResponse(answers: readonly (readonly string[])[]): string {
  const chosen = answers.flat();
  return chosen.length === 1 ? (chosen[0] ?? "") : JSON.stringify(chosen);
}

export function fromResponse(response: string): string[][] {
  if (!response.startsWith("[")) return [[response]];
  try {
    const chosen: unknown = JSON.parse(response);
    if (Array.isArray(chosen) && chosen.every((choice) => typeof choice === "string")) return [chosen];
  } catch {
    // A free text that happens to start with a bracket.
  }
  return [[response]];
}
