import { afterEach, describe, expect, it } from "vitest";
import {
  ofType,
  openEngine,
  readAll,
  script,
  SCRIPTED,
  type TestEngine,
  waitFor,
} from "../support/engine.ts";
import { assistantTexts, expectLawful } from "../support/laws.ts";

let test: TestEngine;
afterEach(() => test.close());

const message = (text: string, payload?: unknown) =>
  ({
    kind: "message",
    content: [{ type: "text", text }],
    ...(payload === undefined ? {} : { payload }),
  }) as const;

const open = async (): Promise<void> => {
  test = await openEngine();
  await test.engine.create("s", SCRIPTED);
};

const turnsEnded = (count: number): Promise<unknown> => {
  let seen = 0;
  return waitFor(test.log, "s", "turn.ended", { where: () => ++seen === count });
};

describe("submissions", () => {
  it("are accepted in one transaction, in order", async () => {
    await open();
    const { after, accepted } = await test.engine.submit(
      "s",
      [message(script({ say: "a" }), { mine: 1 }), message(script({ say: "b" }))],
      { via: "test" },
    );
    await turnsEnded(2);
    const events = await readAll(test.log, "s");
    expectLawful(events);
    expect(assistantTexts(events)).toEqual(["a", "b"]);
    for (const { sequence, inputId } of accepted.flatMap((one) => one ?? [])) {
      expect(events[sequence - 1]).toMatchObject({ type: "input.accepted", data: { input_id: inputId } });
      expect(sequence).toBeGreaterThan(after);
    }
    // The events of a turn are complete: they repeat the client's message.
    const [first, second] = ofType(events, "turn.started");
    expect(first?.data.inputs).toEqual([
      { input_id: accepted[0]?.inputId, sequence: accepted[0]?.sequence, payload: { mine: 1 } },
    ]);
    expect(second?.data).not.toHaveProperty("inputs");
  });

  it("append nothing where one of them is refused", async () => {
    await open();
    await test.engine.submit("s", [message(script({ ask: { shell: "true" } }))], { via: "test" });
    const { data } = await waitFor(test.log, "s", "permission.requested");
    await waitFor(test.log, "s", "turn.waiting");
    const before = await readAll(test.log, "s");
    const answer = { kind: "permission", id: data.permission_id, reply: "once" } as const;
    await expect(test.engine.submit("s", [answer, answer], { via: "test" })).rejects.toMatchObject({
      code: "already_resolved",
    });
    expect(await readAll(test.log, "s")).toEqual(before);

    await test.engine.submit("s", [answer, message(script({ say: "next" }))], { via: "test" });
    await turnsEnded(2);
    expectLawful(await readAll(test.log, "s"));
  });

  it("may stop a turn and start the next in one transaction", async () => {
    await open();
    await test.engine.submit("s", [message(script({ sleep: 60_000 }))], { via: "test" });
    await waitFor(test.log, "s", "turn.started");
    const both = [{ kind: "interrupt", by: "me" }, message(script({ say: "after" }))] as const;
    await test.engine.submit("s", both, { via: "test" });
    await turnsEnded(2);
    const events = await readAll(test.log, "s");
    expect(ofType(events, "turn.ended").map(({ data }) => data.status)).toEqual(["interrupted", "completed"]);
    expect(assistantTexts(events)).toEqual(["after"]);
  });

  it("under a known key append nothing and answer the same", async () => {
    await open();
    const both = [message(script({ say: "a" })), message(script({ say: "b" }))];
    const first = await test.engine.submit("s", both, { via: "test", key: "k" });
    const again = await test.engine.submit("s", both, { via: "test", key: "k" });
    expect(again).toEqual({ ...first, duplicate: true });
    await turnsEnded(2);
    expect(ofType(await readAll(test.log, "s"), "input.accepted")).toHaveLength(2);
  });

  it("that answer some requests: turn.waiting names the others again", async () => {
    await open();
    const asks = script({ parallel: [{ ask: { shell: "true" } }, { ask: { shell: "true" } }] });
    await test.engine.submit("s", [message(asks)], { via: "test" });
    const two = await waitFor(test.log, "s", "turn.waiting", {
      where: ({ data }) => data.actions.length === 2,
    });
    const [one, other] = two.data.actions;
    await test.engine.resolvePermission("s", one?.id ?? "", { reply: "reject" });
    const rest = await waitFor(test.log, "s", "turn.waiting", { after: two.sequence });
    expect(rest.data.actions).toEqual([other]);
    await test.engine.resolvePermission("s", other?.id ?? "", { reply: "once" });
    await turnsEnded(1);
    expectLawful(await readAll(test.log, "s"));
  });
});
