import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { expect, it } from "vitest";
import { RunnerClient } from "../../../src/sandbox/remote/client.ts";
import { onCleanup } from "./workbench.ts";

/** A client of a program that an agent could have put in the runner's place. */
async function callTo(answer: RequestListener): Promise<RunnerClient> {
  const server = createServer(answer).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const client = new RunnerClient("far", async () => connect(port, "127.0.0.1"), { longest: 1024 * 1024 });
  onCleanup(async () => {
    client.close();
    server.closeAllConnections();
    server.close();
  });
  return client;
}

it.each([
  "null",
  "[]",
  '{"type":5}',
  '{"detail":{"toString":1,"valueOf":1}}',
  '{"type":"internal","detail":{"a":1},"retryable":"yes"}',
])("a problem of any form is an error of the caller: %s", async (text) => {
  const client = await callTo((_request, response) => response.writeHead(500).end(text));
  await expect(client.call("/v1/s/x/facts")).rejects.toMatchObject({ name: "SluiceError" });
});

it.each(["null", "7", "no JSON"])("an answer of any form is an error of the caller: %s", async (text) => {
  const client = await callTo((_request, response) => response.end(text));
  await expect(client.call("/v1/s/x/facts")).rejects.toMatchObject({ code: "internal" });
});

it.each(["null", "7", '{"problem":null}', '{"problem":{"type":5}}'])(
  "a line of any form ends a stream with an error: %s",
  async (text) => {
    const client = await callTo((_request, response) => response.end(`${text}\n`));
    const read = async (): Promise<void> => {
      for await (const _ of client.lines("/v1/s/x/follow"));
    };
    await expect(read()).rejects.toMatchObject({ name: "SluiceError" });
  },
);

it("an answer or a line without an end is cut off before it fills the memory", async () => {
  let sent = 0;
  const client = await callTo((_request, response) => {
    const write = (): void => {
      while (!response.destroyed && sent < 64 * 1024 * 1024) {
        sent += 65_536;
        if (!response.write("a".repeat(65_536))) return void response.once("drain", write);
      }
      response.end();
    };
    write();
  });
  const tooLong = { code: "internal", message: expect.stringContaining("too long") };
  await expect(client.call("/v1/s/x/sent")).rejects.toMatchObject(tooLong);
  await expect(client.lines("/v1/s/x/follow")[Symbol.asyncIterator]().next()).rejects.toMatchObject(tooLong);
  expect(sent).toBeLessThan(64 * 1024 * 1024);
});
