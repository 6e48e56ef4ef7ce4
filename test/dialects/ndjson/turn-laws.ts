import { expect } from "vitest";
import type { AssistantSandboxNDJSONLine, StepLine } from "../../../src/dialects/ndjson/index.ts";

/** The rules for the lines of every turn. */
export function expectTurn(lines: readonly AssistantSandboxNDJSONLine[]): void {
  for (const statuses of statusesOf(lines).values()) {
    expect(statuses[0]).toBe("running");
    expect(statuses.filter((status) => status !== "running")).toHaveLength(1);
    expect(statuses.at(-1)).not.toBe("running");
  }
  const ends = lines.filter(({ type }) => type === "result" || type === "error");
  expect(ends).toHaveLength(1);
  expect(lines.at(-1)).toBe(ends[0]);
  const times = lines.map(({ ts }) => ts ?? -1);
  expect(times.every((time) => Number.isInteger(time) && time >= 0)).toBe(true);
  expect(times).toEqual(times.toSorted((a, b) => a - b));
}

export function stepsOf(lines: readonly AssistantSandboxNDJSONLine[]): StepLine[] {
  return lines.filter((line) => line.type === "step");
}

function statusesOf(lines: readonly AssistantSandboxNDJSONLine[]): Map<string, string[]> {
  const steps = new Map<string, string[]>();
  for (const { id, status } of stepsOf(lines)) steps.set(id, [...(steps.get(id) ?? []), status]);
  return steps;
}
