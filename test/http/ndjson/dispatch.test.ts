import { expect, it } from "vitest";
import { createApp, listen } from "../../../src/http/index.ts";
import { openNdjson } from "./ndjson-bench.ts";

it("runs that begin at once on two servers start, although each removes the old passwords of the others", async () => {
  // Every password is old at once, so that each dispatch removes those of all others.
  const ndjson = { uploadTtlMs: -60_000 };
  const bench = await openNdjson({ ndjson });
  const { engine } = bench.test;
  const app = createApp({
    engine,
    token: false,
    version: "1",
    catalog: bench.catalog,
    ndjson,
    logger: () => {},
  });
  const other = await listen({ app, host: "127.0.0.1", port: 0 });
  try {
    const begin = async (index: number): Promise<number> => {
      const url = index % 2 === 0 ? bench.url : other.url;
      const response = await fetch(`${url}/ndjson/chat`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ conversation: `c-${index}`, prompt: "#script []" }),
      });
      await response.text();
      return response.status;
    };
    await begin(24);
    const statuses = await Promise.all(Array.from({ length: 24 }, (_, index) => begin(index)));
    expect(new Set(statuses)).toEqual(new Set([await begin(25)]));
    expect(statuses[0]).toBeLessThan(300);
    expect(bench.lines.filter(({ level }) => level !== "info")).toEqual([]);
  } finally {
    await other.close();
    await bench.close();
  }
});
