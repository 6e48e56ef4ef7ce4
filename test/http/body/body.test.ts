import { request } from "node:http";
import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { findJsonError, parseJson } from "../../../src/http/body/json.ts";
import { type AppBench, openApp, type ProblemBody, problemOf } from "../app-bench.ts";

const MB = 1024 * 1024;
let bench: AppBench;
beforeAll(async () => {
  bench = await openApp();
  await bench.test.engine.create("s", { agent: "scripted" });
});
afterAll(() => bench.close());

/** Sends a body of this size, for any response; chunked without a length if `announced` is false. */
function pour(
  bytes: number,
  announced: boolean,
  connection: "close" | "keep-alive",
): Promise<{ problem: ProblemBody; sent: number }> {
  return new Promise((resolve, reject) => {
    let sent = 0;
    const headers = { connection, ...(announced && { "content-length": bytes }) };
    const outgoing = request(
      `${bench.url}/v1/sessions/s/messages`,
      { method: "POST", headers, agent: false },
      (response) => {
        let body = "";
        response.on("data", (chunk) => (body += chunk));
        response.on("end", () => {
          outgoing.destroy();
          resolve({ problem: JSON.parse(body) as ProblemBody, sent });
        });
      },
    );
    outgoing.on("error", (error) => (sent >= bytes ? reject(error) : undefined));
    const piece = Buffer.alloc(MB, 0x20);
    const more = (): void => {
      while (sent < bytes && !outgoing.destroyed) {
        sent += piece.length;
        if (!outgoing.write(piece)) return void outgoing.once("drain", more);
      }
      outgoing.end();
    };
    more();
  });
}

describe("a body that is too large", () => {
  it.each([
    [true, "keep-alive"],
    [false, "keep-alive"],
    [true, "close"],
    [false, "close"],
  ] as const)(
    "is refused in bounded memory, announced: %s, connection: %s",
    async (announced, connection) => {
      const before = process.memoryUsage();
      let most = 0;
      const watch = setInterval(() => (most = Math.max(most, process.memoryUsage().arrayBuffers)), 5);
      const { problem } = await pour(256 * MB, announced, connection);
      clearInterval(watch);
      expect(problem).toMatchObject({ status: 413, type: "urn:sluice:error:too_large", limit: 32 * MB });
      expect(problem.detail).toContain(String(32 * MB));
      expect(most - before.arrayBuffers).toBeLessThan(128 * MB);
    },
  );

  it("is refused for a plain fetch too, and the server keeps running", async () => {
    const response = await bench.call("POST", "/v1/sessions/s/messages", { body: Buffer.alloc(64 * MB) });
    expect((await problemOf(response)).status).toBe(413);
    expect((await bench.call("GET", "/healthz")).status).toBe(200);
  });

  it("is accepted at exactly the limit", async () => {
    const small = await openApp({ limits: { json: 100, file: 200 } });
    try {
      await small.test.engine.create("s", { agent: "scripted" });
      const put = (size: number) =>
        small.call("PUT", "/v1/fs/file?session=s&path=a", { body: new Uint8Array(size) });
      expect((await put(200)).status).toBe(200);
      expect((await put(201)).status).toBe(413);
      const message = JSON.stringify({ message: "" });
      const fits = JSON.stringify({ message: "x".repeat(100 - message.length) });
      expect((await small.call("POST", "/v1/sessions/none/messages", { body: fits })).status).toBe(404);
      expect((await small.call("POST", "/v1/sessions/none/messages", { body: `${fits} ` })).status).toBe(413);
    } finally {
      await small.close();
    }
  });
});

describe("a body that is not JSON", () => {
  it.each([
    ["", 0],
    ["{", 1],
    ["hello", 0],
    ['{"message": }', 12],
    ['{"message": "a" "b"}', 16],
    ['{"message": "a",}', 16],
    ['{"message": "a\nb"}', 14],
    ['{"message": "\\x"}', 14],
    ["[1, 2", 5],
    ["[01]", 2],
    ['{"a": tru}', 6],
    ["{} {}", 3],
    ["\u00a0{}", 0],
  ])("%j breaks at %i", async (body, position) => {
    const response = await bench.call("POST", "/v1/sessions/s/messages", { body });
    const problem = await problemOf(response);
    expect(problem).toMatchObject({ status: 400, type: "urn:sluice:error:invalid_request", position });
    expect(problem.detail).toContain(`position ${position}`);
  });

  it("is reported with the position of the first error", () => {
    fc.assert(
      fc.property(
        fc.json(),
        fc.nat(),
        fc.constantFrom("}", "]", ",", ":", '"', "x", "1", " ", "\n"),
        (json, at, char) => {
          const place = at % (json.length + 1);
          const text = json.slice(0, place) + char + json.slice(place);
          let valid = true;
          try {
            JSON.parse(text);
          } catch {
            valid = false;
          }
          const found = findJsonError(text);
          if (valid) expect(found).toBe(text.length);
          else expect(found).toBeGreaterThanOrEqual(Math.min(place, findJsonError(json.slice(0, place))));
        },
      ),
    );
  });

  it("is refused beyond the depth limit", () => {
    expect(() => parseJson(`${"[".repeat(200_000)}x`)).toThrow("nested more than 128 levels");
    expect(findJsonError(`${"[".repeat(200_000)}x`)).toBe(200_000);
  });

  it("is refused with the wrong field and the expected value", async () => {
    const response = await bench.call("POST", "/v1/sessions/s/messages", {
      json: { message: 1, attachments: [{ mime: "x" }], extra: true },
    });
    const problem = await problemOf(response);
    expect(problem.status).toBe(400);
    for (const words of ["message: expected string", "attachments.0.path: expected string", "extra"]) {
      expect(problem.detail).toContain(words);
    }
  });
});
