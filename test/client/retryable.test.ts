import { afterEach, describe, expect, it } from "vitest";
import { createClient, SluiceClientError, SluiceFailure } from "../../src/client/index.ts";
import { type ErrorCode, ERRORS, SluiceError } from "../../src/contract/index.ts";
import { createApp, listen, type Listening } from "../../src/http/index.ts";
import { openEngine, type TestEngine } from "../support/engine.ts";

let test: TestEngine;
let server: Listening;
afterEach(async () => {
  await server.close();
  await test.close();
});

/** A real server whose engine fails in one way. */
async function failing(error: unknown): Promise<string> {
  test = await openEngine();
  const info = async (): Promise<never> => {
    throw error;
  };
  const engine = new Proxy(test.engine, {
    get: (target, name) => (name === "info" ? info : (Reflect.get(target, name) as unknown)),
  });
  const app = createApp({ engine, token: false, version: "1", logger: () => {} });
  server = await listen({ app, host: "127.0.0.1", port: 0 });
  return server.url;
}

describe("retryable", () => {
  it("is in the problem document, for every code", async () => {
    for (const code of Object.keys(ERRORS) as ErrorCode[]) {
      const url = await failing(new SluiceError(code, "it went wrong"));
      const row: { status: number; retryable?: boolean } = ERRORS[code];
      const body = (await (await fetch(`${url}/v1/sessions/s`)).json()) as Record<string, unknown>;
      expect([code, body["retryable"]]).toEqual([code, row.retryable ?? false]);
      await server.close();
      await test.close();
    }
    await failing(new Error("unexpected"));
  });

  it("ends subscribe() where no retry can help", async () => {
    const url = await failing(new SluiceError("data_version", "the data is newer than this server"));
    const events = createClient({ url }).subscribe("s");
    await expect(events.next()).rejects.toMatchObject({ code: "data_version", retryable: false });
  });

  it("lets subscribe() try again where the server says so", async () => {
    const url = await failing(new Error("unexpected"));
    const stop = new AbortController();
    const cuts: SluiceClientError[] = [];
    const onCut = (error: SluiceClientError): void => {
      cuts.push(error);
      if (cuts.length === 2) stop.abort();
    };
    const events = createClient({ url }).subscribe("s", { onCut, signal: stop.signal });
    expect(await events.next()).toMatchObject({ done: true });
    expect(cuts.map(({ code, retryable }) => [code, retryable])).toEqual([
      ["internal", true],
      ["internal", true],
    ]);
  });

  it("has one base class in the server and the client", async () => {
    const url = await failing(new SluiceError("session_busy", "later"));
    const error: unknown = await createClient({ url })
      .sessions.get("s")
      .catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(SluiceClientError);
    expect(error).toBeInstanceOf(SluiceFailure);
    const own = new SluiceError("session_busy", "later");
    expect(own).toBeInstanceOf(SluiceFailure);
    expect({ ...(error as SluiceFailure), name: 0 }).toMatchObject({ ...own, name: 0 });
  });
});
