import { expect, it } from "vitest";
import { Pollers } from "../../../../src/http/anthropic/work/pollers.ts";

it("counts the workers of an environment that polled lately, and forgets the others without being asked", () => {
  const pollers = new Pollers();
  for (let worker = 0; worker < 1_000; worker += 1) pollers.note("env_a", `w${worker}`, worker * 100);
  expect(pollers.size).toBeLessThanOrEqual(101);
  pollers.note("env_b", "w", 100_000);
  pollers.note("env_b", "w", 100_100);
  expect(pollers.count("env_b", 100_200)).toBe(1);
  expect(pollers.count("env_a", 100_200)).toBe(98);
  expect(pollers.count("env_a", 200_000)).toBe(0);
  expect(pollers.size).toBe(0);
});
