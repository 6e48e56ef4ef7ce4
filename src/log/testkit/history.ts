import assert from "node:assert/strict";
import type { KeptHistory } from "../kept/turns.ts";
import { append, createSession, toDeltas, type Suite } from "./suite.ts";

/** Two turns of ten events each. */
const HISTORY: KeptHistory = {
  turns: [
    { from: 1, last: 10, outline: '{"n":1}' },
    { from: 11, last: 20, outline: '{"n":2}' },
  ],
  folds: [
    { at: 10, state: '{"head":10}' },
    { at: 20, state: '{"head":20}' },
  ],
};
const ALL = { before: Number.MAX_SAFE_INTEGER, limit: 100 };

export function history(suite: Suite): void {
  suite.it("keeps the turns and folds of an append, and gives them newest first", async ({ log, reopen }) => {
    const { ordinal } = await createSession(log, "s");
    await append(log, "s", toDeltas(20), { history: HISTORY });
    const again = reopen ? await reopen() : log;
    assert.deepEqual(await again.turns.list(ordinal, ALL), HISTORY.turns.toReversed());
    assert.deepEqual(await again.turns.list(ordinal, { before: 20, limit: 5 }), [HISTORY.turns[0]]);
    assert.deepEqual(await again.turns.list(ordinal, { ...ALL, limit: 1 }), [HISTORY.turns[1]]);
    assert.equal((await again.turns.foldAt(ordinal, 19))?.at, 10);
    assert.equal((await again.turns.foldAt(ordinal, 20))?.at, 20);
    assert.equal(await again.turns.foldAt(ordinal, 9), undefined);
  });

  suite.it("adds missing turns once, and none of a session that is gone", async ({ log }) => {
    const { ordinal } = await createSession(log, "s");
    await append(log, "s", toDeltas(20));
    await log.turns.add(ordinal, HISTORY);
    const changed = HISTORY.turns.map((turn) => ({ ...turn, outline: "{}" }));
    await log.turns.add(ordinal, { ...HISTORY, turns: changed });
    assert.deepEqual(await log.turns.list(ordinal, ALL), HISTORY.turns.toReversed());
    await log.remove("s");
    assert.deepEqual(await log.turns.list(ordinal, ALL), []);
    await log.turns.add(ordinal, HISTORY);
    assert.deepEqual(await log.turns.list(ordinal, ALL), []);
  });

  suite.it("forgets trimmed turns, and keeps the fold at the floor", async ({ log }) => {
    const { ordinal } = await createSession(log, "s");
    await append(log, "s", toDeltas(20), { history: HISTORY });
    await log.trim("s", 10);
    assert.deepEqual(await log.turns.list(ordinal, ALL), [HISTORY.turns[1]]);
    assert.equal((await log.turns.foldAt(ordinal, 15))?.at, 10);
  });

  suite.it("tells observers every session that is created, appended to or removed", async ({ log }) => {
    const seen: (string | undefined)[] = [];
    const end = log.observe((session) => void seen.push(session));
    await createSession(log, "a");
    await createSession(log, "b");
    await append(log, "a", toDeltas(1));
    await log.remove("b");
    end();
    await append(log, "a", toDeltas(1));
    assert.deepEqual(
      seen.filter((session) => session !== undefined),
      ["a", "b", "a", "b"],
    );
  });
}
