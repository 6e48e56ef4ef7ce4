import { expect, it } from "vitest";
import { createClient } from "../../src/client/index.ts";
import { openApp } from "../http/app-bench.ts";

it("200 subscriptions share one signal without a warning, and end with it", async () => {
  const bench = await openApp();
  const warnings: Error[] = [];
  const note = (warning: Error): void => void warnings.push(warning);
  process.on("warning", note);
  try {
    const client = createClient({ url: bench.url });
    await client.sessions.create("one", { agent: "scripted" });
    await client.sendMessage("one", "hello");
    const abort = new AbortController();
    const { signal } = abort;
    const readers = Array.from({ length: 200 }, () => client.subscribe("one", { signal, after: 0 }));
    const first = await Promise.all(readers.map((reader) => reader.next()));
    expect(first.every(({ done }) => !done)).toBe(true);
    abort.abort();
    const rests = await Promise.all(
      readers.map(async (reader) => {
        for await (const event of reader) void event;
        return "ended";
      }),
    );
    expect(new Set(rests)).toEqual(new Set(["ended"]));
    // Warnings are emitted on the next tick.
    await new Promise((resolve) => setImmediate(resolve));
    expect(warnings.map(({ name }) => name)).toEqual([]);
  } finally {
    process.off("warning", note);
    await bench.close();
  }
});
