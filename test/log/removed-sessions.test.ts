import { afterEach, expect, it, vi } from "vitest";
import { createMemoryLog } from "../../src/log/index.ts";

afterEach(() => vi.useRealTimers());

it("a reader that never lets go keeps a removed session for half a minute, not for ever", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const log = createMemoryLog();
  const { ordinal } = await log.create({ id: "s", spec: { agent: "scripted" }, owner: "x", time: 1 });
  const letGo = log.hold(ordinal);
  await log.remove("s");
  vi.advanceTimersByTime(29_000);
  expect(await log.retired()).toHaveLength(1);
  vi.advanceTimersByTime(2_000);
  expect(await log.retired()).toEqual([]);
  letGo();
  await log.close();
});
