import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  fromEventId,
  fromSessionId,
  toEventId,
  toSessionId,
  toThreadId,
} from "../../../src/dialects/anthropic/ids.ts";

const sequence = fc.integer({ min: 1, max: 2 ** 40 });
const index = fc.integer({ min: 0, max: 25 });
const session = fc.stringMatching(/^[A-Za-z0-9][A-Za-z0-9._:-]{0,40}$/);

describe("the ids of events", () => {
  it("give back their position, in their own session alone", () => {
    fc.assert(
      fc.property(session, session, sequence, index, (one, other, sequence, index) => {
        const id = toEventId(one, sequence, index);
        expect(id).toMatch(/^sevt_[0-9a-z]+$/);
        expect(fromEventId(one, id)).toEqual({ sequence, index });
        if (one !== other && toEventId(other, sequence, index) !== id)
          expect(fromEventId(other, id)).toBeUndefined();
      }),
    );
  });

  it("sort like the log", () => {
    fc.assert(
      fc.property(sequence, sequence, (one, other) => {
        expect(toEventId("s", one) < toEventId("s", other)).toBe(one < other);
      }),
    );
  });

  it.each(["", "sevt_", "sevt_nope", "evt_00000001a0000000", `${toEventId("s", 1)}x`])(
    "are not %j",
    (text) => {
      expect(fromEventId("s", text)).toBeUndefined();
    },
  );
});

describe("the ids of sessions", () => {
  it("stay as they are for sessions of this dialect and get a prefix for others", () => {
    expect(toSessionId("sesn_abc")).toBe("sesn_abc");
    expect(toSessionId("mine")).toBe("sesn_mine");
    fc.assert(
      fc.property(session, (id) => {
        expect(fromSessionId(toSessionId(id))).toContain(id);
        expect(toThreadId(id)).toMatch(/^sthr_./);
      }),
    );
  });
});
