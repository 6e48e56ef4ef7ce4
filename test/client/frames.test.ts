import { afterEach, expect, it } from "vitest";
import { createClient } from "../../src/client/index.ts";
import { type CuttingServer, startCuttingServer } from "./cutting-server.ts";

const events = Array.from({ length: 20 }, (_, index) => ({
  sequence: index + 1,
  type: "custom",
  data: { text: "x".repeat(index) },
}));

let server: CuttingServer | undefined;
afterEach(() => server?.close());

it.each(["end", "reset"] as const)(
  "frames come once each, although %s cuts the stream anywhere",
  async (how) => {
    server = await startCuttingServer({
      events,
      cut: (connection) => (connection < 6 ? { bytes: 130 + connection * 90, how } : undefined),
    });
    const client = createClient({ url: server.url });
    const sequences: number[] = [];
    for await (const { sequence } of client.frames.subscribe("s", "universal")) sequences.push(sequence);
    expect(sequences).toEqual(events.map(({ sequence }) => sequence));
    expect(server.requests.length).toBeGreaterThan(6);
  },
);
