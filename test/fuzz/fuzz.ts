import { assert, asyncProperty, type Arbitrary } from "fast-check";
import { it } from "vitest";

/** How long each target runs with `npm run fuzz -- --minutes N`; undefined in the suite, where the seed and the number of tries are fixed. */
const SECONDS = process.env["SLUICE_FUZZ_SECONDS"];
const SEED = process.env["SLUICE_FUZZ_SEED"];

/**
 * A test that throws a fixed number of inputs at `check`, always the same ones; under `npm run fuzz` other inputs for
 * as long as was asked for. A failure names the seed and the smallest input: put that input into `findings`.
 */
export function fuzz<T>(
  name: string,
  options: {
    readonly inputs: Arbitrary<T>;
    /** Inputs that failed once, tried first. */
    readonly findings?: readonly T[];
    /** Tries in the suite. */
    readonly tries?: number;
    /** Throws where the input did harm. */
    check(input: T): Promise<void> | void;
  },
): void {
  const { inputs, findings = [], tries = 200, check } = options;
  const limit = SECONDS === undefined ? undefined : Number(SECONDS) * 1_000;
  const budget =
    limit === undefined
      ? { numRuns: tries, seed: 20_261_115 }
      : {
          numRuns: Number.MAX_SAFE_INTEGER,
          interruptAfterTimeLimit: limit,
          ...(SEED ? { seed: Number(SEED) } : {}),
        };
  it(
    name,
    async () => {
      const property = asyncProperty(inputs, async (input) => await check(input));
      await assert(property, { ...budget, examples: findings.map((finding): [T] => [finding]) });
    },
    limit === undefined ? 120_000 : limit + 120_000,
  );
}
