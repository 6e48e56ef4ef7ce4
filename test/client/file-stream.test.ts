import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, it } from "vitest";
import { createClient } from "../../src/client/index.ts";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

it("streams a whole file to a reader that starts late", async () => {
  const server = createServer((_, response) => response.end("hello")).listen(0, "127.0.0.1");
  try {
    await new Promise((resolve) => server.once("listening", resolve));
    const client = createClient({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
    const streams = await Promise.all(Array.from({ length: 20 }, () => client.fs.stream("s", "a.txt")));
    for (let round = 0; round < 5; round += 1) {
      collectGarbage();
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    const texts = await Promise.all(streams.map((stream) => new Response(stream).text()));
    expect(texts).toEqual(streams.map(() => "hello"));
  } finally {
    server.close();
    server.closeAllConnections();
  }
});
