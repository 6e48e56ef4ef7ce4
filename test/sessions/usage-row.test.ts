import { describe, expect, it } from "vitest";
import { Drafts } from "../../src/sessions/fold/drafts.ts";
import { emptyFold } from "../../src/sessions/fold/session-fold.ts";
import { admitFact } from "../../src/sessions/turn/rules.ts";

const OPTIONS = { spec: { agent: "x" }, raw: undefined, line: { dir: "out", at: 0 } } as const;
const TIME = Date.parse("2026-11-18T23:59:59.999Z");

/** The bookings of one request that an agent reports. */
function book(credential: "plan_login" | undefined, usage: object | undefined) {
  const fold = { ...emptyFold(), ...(credential && { credential }) };
  const drafts = new Drafts(fold, TIME);
  admitFact(fold, drafts, { type: "model.started", data: { request_id: "r", model: "m" } }, OPTIONS);
  admitFact(
    fold,
    drafts,
    { type: "model.ended", data: { request_id: "r", ...(usage && { usage }) } },
    OPTIONS,
  );
  return { rows: drafts.usage, spent: fold.spent };
}

describe("the booking of a model request", () => {
  it("has the model of its start, the day in UTC, and the reported cost", () => {
    const { rows } = book(undefined, { input_tokens: 5, cost_usd: 0.5 });
    expect(rows).toMatchObject([
      { day: "2026-11-18", model: "m", price: "usd", requests: 1, input: 5, usd: 0.5 },
    ]);
  });

  it("is unknown without a price, and never free", () => {
    const { rows, spent } = book(undefined, { input_tokens: 5 });
    expect(rows).toMatchObject([{ price: "unknown", usd: 0 }]);
    expect(spent).toMatchObject({ requests: 1, unpriced: 1 });
  });

  it("of a plan adds no dollars, whatever the agent reports", () => {
    expect(book("plan_login", { input_tokens: 5, cost_usd: 3 }).rows).toMatchObject([
      { price: "plan", usd: 0 },
    ]);
  });

  it("of a request without an answer has no price", () => {
    const { rows, spent } = book(undefined, undefined);
    expect(rows).toMatchObject([{ price: "none", requests: 1 }]);
    expect(spent).toMatchObject({ unpriced: 0 });
  });
});
