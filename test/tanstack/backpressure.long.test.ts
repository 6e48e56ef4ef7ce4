import { chat } from "@tanstack/ai";
import { expect, it } from "vitest";
import { sluiceText } from "../../src/tanstack/index.ts";
import { openAgUi } from "../http/ag-ui/ag-ui-bench.ts";
import { script } from "../support/engine.ts";

const EVENTS = 40_000;

it("a reader of chat() that pauses leaves the rest with the server, and gets all of it later", async () => {
  const bench = await openAgUi();
  let pulled = 0;
  /** Counts what the adapter takes from the wire, and takes no byte more than it. */
  const counting: typeof fetch = async (url, init) => {
    const response = await fetch(url, init);
    if (!response.body) return response;
    const reader = response.body.getReader();
    const body = new ReadableStream<Uint8Array>(
      {
        async pull(controller) {
          const { value, done } = await reader.read();
          if (done) return controller.close();
          pulled += value.length;
          controller.enqueue(value);
        },
        cancel: (reason) => reader.cancel(reason),
      },
      { highWaterMark: 0 },
    );
    return new Response(body, response);
  };
  try {
    const adapter = sluiceText({ baseUrl: bench.url, agent: "scripted", fetch: counting });
    const messages = [{ role: "user" as const, content: script({ flood: { events: EVENTS, bytes: 200 } }) }];
    const stream = chat({ adapter, messages, threadId: "slow", runId: "r1" });
    let count = 0;
    let atPause = 0;
    for await (const chunk of stream) {
      if (chunk.type === "TEXT_MESSAGE_CONTENT") count += 1;
      if (count === 1 && atPause === 0) {
        // The run ends while its reader pauses.
        await expect
          .poll(async () => (await bench.test.engine.info("slow")).turnId, { timeout: 60_000 })
          .toBeNull();
        atPause = pulled;
      }
    }
    expect(count).toBe(EVENTS);
    expect(pulled).toBeGreaterThan(EVENTS * 200);
    expect(atPause).toBeLessThan(pulled / 10);
  } finally {
    await bench.close();
  }
}, 120_000);
