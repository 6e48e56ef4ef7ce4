import { randomBytes } from "node:crypto";
import { mkdtempSync, symlinkSync } from "node:fs";
import { request as startRequest } from "node:http";
import { connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { afterAll, afterEach, expect, it } from "vitest";
import { openPort } from "../../../src/sandbox/egress/open-port.ts";
import { EgressLab, describeWithBwrap, said } from "./lab.ts";

const lab = new EgressLab();
afterEach(() => lab.clear());
afterAll(() => lab.remove());

const SERVER = `
  import { createServer } from "node:http";
  const server = createServer((request, response) => {
    if (request.url !== "/stream") return void request.pipe(response);
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write("data: 1\\n\\n");
    request.socket.server.once("release", () => response.end("data: 2\\n\\n"));
  });
  server.on("request", (request) => request.url === "/release" && server.emit("release"));
  server.on("upgrade", (request, socket, head) => {
    socket.write("HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: echo\\r\\nConnection: Upgrade\\r\\n\\r\\n");
    socket.pipe(socket);
  });
  server.listen(8080, process.env.ADDRESS, () => console.log("ready"));
`;

async function serveInside(options: { address?: string } = {}) {
  const made = await lab.egress({ policy: { mode: "loopback" }, ports: true });
  const script = `exec node --input-type=module -e "$SERVER"`;
  const env = { SERVER, ADDRESS: options.address ?? "127.0.0.1" };
  const sandbox = lab.startSandbox(made.egress, script, env);
  await said(sandbox, "ready");
  return { ...made, sandbox };
}

describeWithBwrap("the way into a sandbox", () => {
  it("leads to a server inside, and is the same when asked again", async () => {
    const { egress } = await serveInside();
    const url = await egress.openPort(8080);
    expect(url.hostname).toBe("127.0.0.1");
    expect(await (await fetch(url, { method: "POST", body: "hello" })).text()).toBe("hello");
    expect((await egress.openPort(8080)).href).toBe(url.href);
  });

  it("leads to a server that listens on the other loopback address", async () => {
    const { egress } = await serveInside({ address: "::1" });
    const answer = await fetch(await egress.openPort(8080), { method: "POST", body: "six" });
    expect(await answer.text()).toBe("six");
  });

  it("carries megabytes both ways, many at once", async () => {
    const { egress } = await serveInside();
    const url = await egress.openPort(8080);
    const bodies = Array.from({ length: 20 }, () => randomBytes(1_048_576));
    const echo = async (body: Buffer) => {
      const answer = await fetch(url, { method: "POST", body: new Uint8Array(body) });
      return Buffer.from(await answer.arrayBuffer()).equals(body);
    };
    expect(await Promise.all(bodies.map(echo))).toEqual(bodies.map(() => true));
  });

  it("streams events as they come", async () => {
    const { egress } = await serveInside();
    const url = await egress.openPort(8080);
    const answer = await fetch(new URL("/stream", url));
    const events: string[] = [];
    const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
    for (let part = await reader?.read(); part?.value !== undefined; part = await reader?.read()) {
      events.push(part.value);
      // The second one is sent only after the first has arrived.
      if (events.length === 1) await (await fetch(new URL("/release", url))).text();
    }
    expect(events).toEqual(["data: 1\n\n", "data: 2\n\n"]);
  });

  it("lets a connection become another protocol", async () => {
    const { egress } = await serveInside();
    const headers = { connection: "Upgrade", upgrade: "echo" };
    const request = startRequest(await egress.openPort(8080), { headers });
    const socket = await new Promise<Socket>((resolve, reject) => {
      request.on("upgrade", (_answer, upgraded: Socket) => resolve(upgraded)).on("error", reject);
      request.end();
    });
    socket.write("over");
    expect(
      await new Promise((resolve) => socket.once("data", (data: Buffer) => resolve(data.toString()))),
    ).toBe("over");
    socket.destroy();
  });

  it("explains a port without a listener, and answers once there is one", async () => {
    const { egress } = await serveInside();
    const answer = await fetch(await egress.openPort(9));
    expect(answer.status).toBe(502);
    expect(await answer.text()).toContain(
      "nothing answers on port 9 inside the sandbox: connect ECONNREFUSED",
    );
  });

  it("leads to whichever process of the sandbox has the port open", async () => {
    const { egress } = await serveInside();
    // Another process with a network of its own, younger than the server.
    const other = lab.startSandbox(egress, "echo ready; exec sleep 600");
    await said(other, "ready");
    const url = await egress.openPort(8080);
    const texts = await Promise.all(
      ["a", "b", "c", "d"].map(async (body) => (await fetch(url, { method: "POST", body })).text()),
    );
    expect(texts).toEqual(["a", "b", "c", "d"]);
  });

  it("does not follow a link that the agent has put in its place", async () => {
    let touched = 0;
    const folder = mkdtempSync(join(lab.folder, "linked-"));
    const private_ = join(lab.folder, "private.sock");
    const server = createServer(() => touched++);
    await new Promise<void>((resolve) => server.listen(private_, resolve));
    symlinkSync(private_, join(folder, "ingress.a.sock"));
    const port = await openPort({ folder, port: 80 });
    expect((await fetch(port.url)).status).toBe(502);
    await port.close();
    await new Promise((resolve) => server.close(resolve));
    expect(touched).toBe(0);
  });

  it("is closed by close, with its open connections", async () => {
    const { egress } = await serveInside();
    const url = await egress.openPort(8080);
    const client = connect(Number(url.port), "127.0.0.1");
    await new Promise((resolve) => client.once("connect", resolve));
    const closed = new Promise((resolve) => client.on("error", () => {}).once("close", resolve));
    await egress.close();
    await closed;
    await expect(fetch(url)).rejects.toThrow();
    // Opened again on demand.
    const answer = await fetch(await egress.openPort(8080), { method: "POST", body: "again" });
    expect(await answer.text()).toBe("again");
  });

  it("refuses an invalid port", async () => {
    const { egress } = await lab.egress({});
    await expect(egress.openPort(70_000)).rejects.toMatchObject({ code: "invalid_request" });
  });
});
