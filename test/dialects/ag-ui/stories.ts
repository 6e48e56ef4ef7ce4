import * as fc from "fast-check";
import type { StoredEventText } from "../../../src/dialects/port.ts";
import { type Happening, tellStory } from "./storyteller.ts";

const pick = fc.nat({ max: 9 });
/** Weighted for long turns, many deltas and many open items. */
const happening = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ kind: fc.constantFrom("say", "think", "call", "call"), inside: pick }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constantFrom("ask", "question", "tool", "early-tool"), inside: pick }),
  },
  { weight: 8, arbitrary: fc.record({ kind: fc.constant("more"), which: pick }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constantFrom("complete", "return"), which: pick }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("answer"), which: pick }) },
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constantFrom("file", "plan", "diff", "custom", "native", "model") }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("end"),
      how: fc.constantFrom("completed", "failed", "interrupted"),
    }),
  },
) as fc.Arbitrary<Happening>;
const tell = (maxLength: number): fc.Arbitrary<StoredEventText[]> =>
  fc.array(happening, { minLength: 10, maxLength, size: "max" }).map(tellStory);

/** Any log that the engine's rules allow. */
export const story = tell(80);
export const shortStory = tell(30);
