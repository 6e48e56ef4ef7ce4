import { describe, expect, it } from "vitest";
import { Endpoint, PATIENCE } from "../../../src/http/webhooks/delivery.ts";

/** A host that is dialled for ever, whatever the signal says. */
const never = (): Promise<Response> => new Promise(() => {});

describe("an endpoint whose connection never comes about", () => {
  const open = (signal: AbortSignal, timeoutMs: number): Endpoint =>
    new Endpoint({
      url: "https://example.com/",
      key: `whsec_${btoa("key")}`,
      patience: { ...PATIENCE, timeoutMs },
      stats: { delivered: 0, failed: 0, givenUp: 0 },
      logger: () => {},
      signal,
      fetch: never,
    });
  const message = { id: "msg_1", type: "turn.ended", body: "{}" };

  it("is an attempt that failed", async () => {
    const endpoint = open(new AbortController().signal, 20);
    expect(await endpoint.attempt(message)).toMatch(/timeout/);
    expect(endpoint.attempts).toMatchObject([{ id: "msg_1", delivered: false }]);
  });

  it("does not keep the server from closing", async () => {
    const abort = new AbortController();
    const delivery = open(abort.signal, 600_000).deliver(message);
    abort.abort();
    expect(await delivery).toBe(false);
  });
});
