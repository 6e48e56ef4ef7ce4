import { once } from "node:events";
import { connect, type AddressInfo } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { expect, it } from "vitest";
import { createRunner } from "../../../src/sandbox/runner/server.ts";
import { makeFolder, onCleanup } from "./workbench.ts";

it("a client that resets its connection while a port is opened does not end the runner", async () => {
  const server = createRunner({ root: await makeFolder(), build: "test" });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onCleanup(async () => void server.close());
  const { port } = server.address() as AddressInfo;
  for (let tries = 0; tries < 50; tries += 1) {
    const socket = connect(port, "127.0.0.1");
    await once(socket, "connect");
    socket.write(
      "GET /v1/s/none/port/9 HTTP/1.1\r\nHost: runner\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n",
    );
    await turn();
    socket.resetAndDestroy();
  }
  const answer = await fetch(`http://127.0.0.1:${port}/v1/hello`);
  expect(answer.status).toBe(200);
});
