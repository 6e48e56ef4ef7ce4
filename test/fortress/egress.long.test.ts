import { lookup } from "node:dns/promises";
import { createServer, type RequestListener, type Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { createServer as createRawServer, type AddressInfo, type Server as RawServer } from "node:net";
import { hostname } from "node:os";
import Anthropic from "@anthropic-ai/sdk";
import { afterEach, expect, it } from "vitest";
import type { SessionSpec } from "../../src/contract/index.ts";
import { createAuthority, issueCertificate } from "../../src/sandbox/egress/certificate.ts";
import { toAddressKind } from "../../src/sandbox/egress/host/dial.ts";
import { isEnd, makeSession, message, text, watch } from "../http/anthropic/session-bench.ts";
import type { TestServer } from "../support/server.ts";
import { describeFortress, runSteps, serveAs } from "./fortress-bench.ts";

/** This machine's own name, which leads to an address of it by the system's resolver. */
const NAME = hostname().toLowerCase();
const found = await lookup(NAME).catch(() => undefined);
const isInside = found !== undefined && toAddressKind(found.address) !== "public";
if (!isInside && process.env["CI"] === "true") {
  throw new Error(`this machine's name ${NAME} has to resolve to an address of it; add it to /etc/hosts`);
}
const itWithName = isInside ? it : it.skip;

const listeners: (Server | RawServer)[] = [];
afterEach(async () => {
  for (const listener of listeners.splice(0)) {
    if ("closeAllConnections" in listener) listener.closeAllConnections();
    await new Promise((resolve) => listener.close(resolve));
  }
});

async function listen(server: Server | RawServer): Promise<number> {
  listeners.push(server);
  await new Promise<void>((resolve) => server.listen(0, "0.0.0.0", resolve));
  return (server.address() as AddressInfo).port;
}

async function serve(): Promise<{ port: number; seen: string[] }> {
  const seen: string[] = [];
  const answer: RequestListener = (request, response) => {
    seen.push(`${request.method} ${request.url} ${request.headers.host}`);
    request.resume().on("end", () => response.end("inside the machine\n"));
  };
  return { port: await listen(createServer(answer)), seen };
}

let count = 0;

/** The output of a shell command of the agent, in a session with this network. */
async function attack(server: TestServer, spec: Omit<SessionSpec, "agent">, shell: string): Promise<string> {
  const session = `attack-${(count += 1)}`;
  await server.client.sessions.create(session, { agent: "scripted", ...spec });
  const events = await runSteps(server, session, { shell });
  return events
    .flatMap((event) => (event.type === "item.completed" ? [JSON.stringify(event.data)] : []))
    .join("\n");
}

describeFortress("the ways out of a sandbox", (user) => {
  itWithName("refuse a name that lies on this machine, however it got onto a list", async () => {
    const { port, seen } = await serve();
    const server = await serveAs(user);
    const url = `http://${NAME}:${port}/`;
    const specs: Omit<SessionSpec, "agent">[] = [
      { network: { allow: [`${NAME}:${port}`] } },
      { network: { allow: [NAME] } },
      { network: { allow: ["*"] } },
      { mcp: { tools: { type: "http", url } } },
      { network: { allow: [] }, mcp: { tools: { type: "http", url } } },
    ];
    for (const spec of specs) {
      const said = await attack(
        server,
        spec,
        `curl -sS -w '[%{http_code}]' ${url}; curl -sSp -o /dev/null ${url}`,
      );
      expect(said, JSON.stringify(spec)).toContain("it lies in the network of the machine that runs sluice");
      // The text is JSON in JSON by now.
      expect(said.replaceAll("\\", "")).toContain(`"private":["${NAME}"]`);
      expect(said).toContain("[403]");
      expect(said).not.toContain("inside the machine\\n");
    }
    expect(seen).toEqual([]);
  });

  itWithName("refuse such a name in an environment of the Anthropic dialect", async () => {
    const { port, seen } = await serve();
    const server = await serveAs(user);
    const { beta } = new Anthropic({ apiKey: server.token, baseURL: `${server.url}/anthropic` });
    const networking = { type: "limited", allowed_hosts: [`${NAME}:${port}`] };
    const environment = await beta.environments.create({
      name: "e",
      config: { type: "cloud", networking } as never,
    });
    const { id } = await makeSession({ beta }, { session: { environment_id: environment.id } });
    const step = { shell: `curl -sS http://${NAME}:${port}/` };
    const send = () => beta.sessions.events.send(id, { events: [message(text(step))] });
    const said = JSON.stringify(await watch({ beta }, id, send, isEnd));
    expect(said).toContain("it lies in the network of the machine");
    expect(seen).toEqual([]);
  });

  itWithName("lead to it where the session says that it may lie there, and to no metadata ever", async () => {
    const { port, seen } = await serve();
    const server = await serveAs(user);
    const network = { allow: [`${NAME}:${port}`], private: [NAME] };
    expect(await attack(server, { network }, `curl -sS http://${NAME}:${port}/x`)).toContain(
      "inside the machine",
    );
    expect(seen).toEqual([`GET /x ${NAME}:${port}`]);
    const wrong = server.client.sessions.create("wrong", {
      agent: "scripted",
      network: { allow: [], private: ["*"] },
    });
    await expect(wrong).rejects.toMatchObject({ code: "invalid_request" });
  });

  itWithName("lead to it where the server was told so, for names on a list", async () => {
    const { port, seen } = await serve();
    const server = await serveAs(user, { env: { SLUICE_PRIVATE_HOSTS: `gateway.example,${NAME}` } });
    const mcp = { tools: { type: "http" as const, url: `http://${NAME}:${port}/mcp` } };
    const shell = `curl -sS http://${NAME}:${port}/x`;
    expect(await attack(server, { mcp }, shell)).toContain("inside the machine");
    expect(seen).toContain(`GET /x ${NAME}:${port}`);
    const network = { allow: ["elsewhere.example"] };
    expect(await attack(server, { network }, shell)).toContain("is not in the session's allow list");
  });

  it("lead to an address and to localhost with their port, and to no other port", async () => {
    const [open, closed] = [await serve(), await serve()];
    const server = await serveAs(user);
    const hosts = ["127.0.0.1", "localhost"];
    const network = { allow: hosts.map((host) => `${host}:${open.port}`) };
    const urls = [open, closed].flatMap(({ port }) => hosts.map((host) => `http://${host}:${port}/`));
    await attack(server, { network }, `for u in ${urls.join(" ")}; do curl -sS --noproxy '' $u; done`);
    expect(open.seen).toHaveLength(2);
    expect(closed.seen).toEqual([]);
  });

  it("frame a request by its length header, also where its Connection header names that", async () => {
    const raw: string[] = [];
    // A server that takes the bytes after the head for the next request, as without a length.
    const port = await listen(
      createRawServer((socket) => {
        const at = raw.push("") - 1;
        socket.on("error", () => socket.destroy());
        socket.on("data", (data) => {
          raw[at] += data.toString("latin1");
          if (raw[at]?.endsWith("elsewhere\r\n\r\n"))
            socket.end("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        });
      }),
    );
    const server = await serveAs(user);
    const second = "GET /smuggled HTTP/1.1\\r\\nHost: elsewhere\\r\\n\\r\\n";
    const words = [
      "Content-Length",
      "content-length, close",
      "Transfer-Encoding",
      "Host",
      "content-LENGTH,host",
    ];
    const shell = words
      .map(
        (word) =>
          `printf '${second}' | curl -sS -m 20 --noproxy '' -X GET -H 'Connection: ${word}' --data-binary @- http://127.0.0.1:${port}/first`,
      )
      .join("\n");
    await attack(server, { network: { allow: [`127.0.0.1:${port}`] } }, shell);
    expect(raw).toHaveLength(words.length);
    for (const request of raw) {
      expect(request).toMatch(/^GET \/first HTTP\/1\.1\r\n/);
      expect(request).toMatch(/^content-length: 43\r$/im);
      expect(request).toContain(`\r\nhost: 127.0.0.1:${port}\r\n`);
    }
  });

  itWithName("carry TLS to the server that was asked for, and to no other on its address", async () => {
    const asked: string[] = [];
    const tls = issueCertificate(createAuthority(), NAME);
    const port = await listen(
      createTlsServer(
        {
          ...tls,
          SNICallback: (name, done) => {
            asked.push(name);
            done(null);
          },
        },
        (_request, response) => void response.end("answered\n"),
      ) as unknown as Server,
    );
    const server = await serveAs(user);
    const said = await attack(
      server,
      { network: { allow: [`${NAME}:${port}`], private: [NAME] } },
      `curl -sSk https://${NAME}:${port}/
       curl -sSk --connect-to hidden.example:${port}:${NAME}:${port} https://hidden.example:${port}/ || echo refused by $?`,
    );
    expect(asked).toEqual([NAME]);
    expect(said).toContain("refused by 35");
  });
});
