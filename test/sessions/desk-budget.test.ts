import { describe, expect, it } from "vitest";
import { createMemoryLog } from "../../src/log/index.ts";
import { applyEvent, emptyFold } from "../../src/sessions/fold/session-fold.ts";
import { reachedEvents, toAccount, toDeskBudget } from "../../src/sessions/turn/budget.ts";

const SPEC = { agent: "claude", budget: { tokens: 100 } } as const;
const ROW = { id: "s", tenant: "team" } as never;

describe("the budget on the desk", () => {
  it("12: is open from the moment at which somebody has to decide", async () => {
    const fold = emptyFold();
    const holder = { fold, spec: SPEC, row: ROW, account: toAccount(fold) };
    const deps = { log: createMemoryLog(), workspaceBudget: () => undefined };
    expect(await toDeskBudget(holder, deps)).not.toHaveProperty("isOpen");
    const hit = { measure: "minutes", limit: 1, amount: 1, spent: 1 } as const;
    for (const event of reachedEvents(fold, SPEC, hit)) applyEvent(fold, event, fold.head + 1, 0);
    expect(await toDeskBudget(holder, deps)).toMatchObject({ isOpen: true, ceilings: { tokens: 100 } });
    const minutes = { ...holder, spec: { agent: "claude", budget: { minutes: 1 } } };
    expect(await toDeskBudget(minutes, deps)).toMatchObject({ isOpen: true });
  });

  it("12: has a sum and its position of one commit", async () => {
    const fold = emptyFold();
    const accounts = [1, 2].map((count) => ({
      spent: { usd: 0, tokens: count * 10, requests: count },
      at: count * 100,
    }));
    const [before, after] = accounts as [(typeof accounts)[0], (typeof accounts)[0]];
    const holder = { fold, spec: SPEC, row: ROW, account: before };
    // A batch commits while the workspace is read.
    const workspaceBudget = (): undefined => void (holder.account = after);
    const answer = await toDeskBudget(holder, { log: createMemoryLog(), workspaceBudget });
    expect(answer).toMatchObject(after);
  });
});
