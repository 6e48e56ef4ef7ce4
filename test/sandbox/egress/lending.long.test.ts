import { readFileSync, writeFileSync } from "node:fs";
import type { IncomingMessage, RequestListener } from "node:http";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import type { LentSecret } from "../../../src/contract/index.ts";
import { EgressLab, collect, describeWithBwrap, said } from "./lab.ts";
import { DESK_TOKEN } from "./lending-desk.ts";
import {
  PLACEHOLDER,
  VALUE,
  echo,
  lab,
  lend,
  lendBy,
  openDesk,
  textOf,
  toSecret,
  toTextFrame,
} from "./lending-lab.ts";

const own = process.env["NODE_EXTRA_CA_CERTS"];

let certificate: ReturnType<EgressLab["certificate"]>;

beforeAll(() => {
  certificate = lab.certificate("api.test");
  // The egress proxy trusts the server's certificate authorities.
  process.env["NODE_EXTRA_CA_CERTS"] = certificate.file;
});

afterEach(() => lab.clear());

afterAll(() => {
  if (own === undefined) delete process.env["NODE_EXTRA_CA_CERTS"];
  else process.env["NODE_EXTRA_CA_CERTS"] = own;
  lab.remove();
});

describeWithBwrap("secrets that are lent to a sandbox", () => {
  it("go into headers by https to their host, and come back as placeholders", async () => {
    const seen: string[] = [];
    const port = await lab.serve((request, response) => {
      seen.push(String(request.headers["x-key"]));
      echo(request, response);
    }, certificate);
    const egress = await lend([{ hosts: ["api.test"] }], { port });
    const outcome = await lab.run(
      egress,
      `curl -sSi -H "X-Key: Bearer $KEY" "https://api.test:${port}/a?k=$KEY"; env; cat /run/sluice-trust/*`,
      { KEY: PLACEHOLDER },
    );
    expect(outcome.stderr).toBe("");
    expect(seen).toEqual([`Bearer ${VALUE}`]);
    expect(outcome.stdout).toContain(`x-seen: Bearer ${PLACEHOLDER}`);
    expect(outcome.stdout).toContain(`"url":"/a?k=${PLACEHOLDER}"`);
    expect(outcome.stdout).not.toContain("9f2c");
  });

  it("go into Basic authentication, and into the body only where it is allowed", async () => {
    const bodies: [string | undefined, string][] = [];
    const port = await lab.serve(async (request, response) => {
      bodies.push([request.headers.authorization, (await textOf(request)).replaceAll("\0", "")]);
      response.end(`length ${request.headers["content-length"] ?? "none"}\n`);
    }, certificate);
    const script = `
      curl -sS -u "me:$KEY" -d "a=$KEY" https://api.test:${port}/
      curl -sS -H 'Content-Type: application/json' -d "{\\"a\\":\\"$KEY\\"}" https://api.test:${port}/
      printf "a=$KEY" | curl -sS -T - https://api.test:${port}/
      { head -c 9000000 /dev/zero; printf "$KEY"; } > /run/big
      curl -sS -H 'Content-Type: text/plain' --data-binary @/run/big https://api.test:${port}/`;
    const headerOnly = await lend([{ hosts: ["api.test"] }], { port });
    await lab.run(headerOnly, script, { KEY: PLACEHOLDER });
    const basic = `Basic ${Buffer.from(`me:${VALUE}`).toString("base64")}`;
    expect(bodies.splice(0)).toEqual([
      [basic, `a=${PLACEHOLDER}`],
      [undefined, `{"a":"${PLACEHOLDER}"}`],
      [undefined, `a=${PLACEHOLDER}`],
      [undefined, PLACEHOLDER],
    ]);
    const bodyOnly = await lend([{ hosts: ["api.test"], header: false, body: true }], { port });
    const { stdout } = await lab.run(bodyOnly, script, { KEY: PLACEHOLDER });
    expect(bodies).toEqual([
      [`Basic ${Buffer.from(`me:${PLACEHOLDER}`).toString("base64")}`, `a=${VALUE}`],
      [undefined, JSON.stringify({ a: VALUE })],
      [undefined, `a=${VALUE}`],
      [undefined, VALUE],
    ]);
    const json = JSON.stringify({ a: VALUE });
    expect(stdout).toBe(`length ${VALUE.length + 2}\nlength ${json.length}\nlength none\nlength none\n`);
  });

  it("never go to another host, with any headers of the request", async () => {
    const seen: string[] = [];
    const listener: RequestListener = async (request, response) => {
      seen.push(JSON.stringify(request.headers) + (await textOf(request)));
      response.end(`${request.headers.host}\n`);
    };
    const other = lab.certificate("other.test");
    const [port, plain, right] = [
      await lab.serve(listener, other),
      await lab.serve(listener),
      await lab.serve(echo, certificate),
    ];
    const egress = await lend([{ hosts: ["api.test"], body: true }], {
      port: right,
      hosts: [`other.test:${port}`, `other.test:${plain}`],
    });
    const { stdout } = await lab.run(
      egress,
      `give() { curl -sS -H "X-Key: $KEY" -d "$KEY" "$@"; }
       give --cacert ${other.file} https://other.test:${port}/
       give --cacert ${other.file} -H 'Host: api.test' https://other.test:${port}/
       give -H 'Host: api.test' http://other.test:${plain}/
       give -H 'Host: other.test' https://api.test:${right}/ | head -c 400`,
      { KEY: PLACEHOLDER },
    );
    expect(seen).toHaveLength(3);
    for (const words of seen) {
      expect(words).toContain(PLACEHOLDER);
      expect(words).not.toContain("9f2c");
    }
    // Untouched, the way is closed to the egress proxy, and a Host header passes it.
    expect(stdout).toContain(`other.test:${port}\napi.test\nother.test:${plain}\n`);
    expect(stdout).toContain(`"host":"api.test:${right}"`);
  });

  it("never go by plain http, neither through the proxy nor through a named port of this machine", async () => {
    const seen: string[] = [];
    const port = await lab.serve((request, response) => {
      seen.push(String(request.headers["x-key"]));
      response.end(`ok ${VALUE} `);
    });
    const egress = await lend([{ hosts: ["*.test", "127.0.0.1"] }], { port, hosts: [`127.0.0.1:${port}`] });
    const urls = `http://api.test:${port}/ http://127.0.0.1:${port}/`;
    const { stdout } = await lab.run(egress, `curl -sS -H "X-Key: $KEY" ${urls}; curl -sS ${urls}`, {
      KEY: PLACEHOLDER,
    });
    expect(stdout.match(/secrets go by TLS only/g)).toHaveLength(2);
    expect(stdout).toContain(`ok ${PLACEHOLDER} ok ${PLACEHOLDER} `);
    expect(seen).toEqual(["undefined", "undefined"]);
  });

  it("go from Node and from Python as from curl", async () => {
    const seen: string[] = [];
    const port = await lab.serve((request, response) => {
      seen.push(String(request.headers["x-key"]));
      response.end("ok\n");
    }, certificate);
    const egress = await lend([{ hosts: ["api.test"] }], { port, nodePreload: true });
    const url = `https://api.test:${port}/`;
    const outcome = await lab.run(
      egress,
      `node -e 'fetch("${url}", { headers: { "x-key": process.env.KEY } }).then((r) => r.text()).then(console.log)'
       python3 -c 'import os,urllib.request as u; print(u.urlopen(u.Request("${url}", headers={"X-Key": os.environ["KEY"]})).read())'`,
      { KEY: PLACEHOLDER },
    );
    expect(outcome.stderr).toBe("");
    expect(seen).toEqual([VALUE, VALUE]);
  });

  it("go to no server that cannot prove to be the host", async () => {
    let touched = 0;
    const port = await lab.serve(() => touched++, lab.certificate("evil.test"));
    const egress = await lend([{ hosts: ["api.test"] }], { port });
    const { stdout } = await lab.run(
      egress,
      `curl -sS -w '%{http_code}' -H "X-Key: $KEY" https://api.test:${port}/`,
      { KEY: PLACEHOLDER },
    );
    expect(stdout).toMatch(/could not be reached: no secure connection \(\w+\)\.\n502$/);
    expect(touched).toBe(0);
  });

  it("without a list go everywhere but to the harness's own hosts", async () => {
    const seen: string[] = [];
    const listener: RequestListener = (request, response) => {
      seen.push(String(request.headers["x-key"]));
      response.end("ok ");
    };
    const [model, port] = [await lab.serve(listener), await lab.serve(listener, certificate)];
    const egress = await lend([{}], { port, extraHosts: [`127.0.0.1:${model}`] });
    await lab.run(
      egress,
      `curl -sS -H "X-Key: $KEY" https://api.test:${port}/; curl -sS -H "X-Key: $KEY" http://127.0.0.1:${model}/`,
      { KEY: PLACEHOLDER },
    );
    expect(seen).toEqual([VALUE, PLACEHOLDER]);
  });

  it("leave protocols alone in which the server speaks first, and let WebSockets through", async () => {
    const greeter = await lab.listen(
      createServer((socket) => {
        socket.write("220 hello\n");
        socket.once("data", (data) => socket.end(`heard ${data.toString()}`));
      }),
    );
    const seen: string[] = [];
    const socketServer = await lab.serve(() => {}, certificate);
    lab.last("upgrade", (request: IncomingMessage, socket: Socket) => {
      seen.push(String(request.headers["x-key"]));
      socket.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
      socket.write(toTextFrame("hello"));
      socket.once("data", (data) => socket.end(toTextFrame(` ${data.toString()} back, ${VALUE}`)));
    });
    const hosts = [`127.0.0.1:${greeter}`];
    const egress = await lend([{ hosts: ["api.test", "127.0.0.1"] }], {
      port: socketServer,
      hosts,
      nodePreload: true,
    });
    const script = `
      const socket = require("net").connect(${greeter}, "127.0.0.1");
      socket.on("data", (data) => { process.stdout.write(data); if (/220/.test(data)) socket.write(process.env.KEY + "\\n"); });
      socket.on("end", () => {
        const headers = { connection: "Upgrade", upgrade: "websocket", "x-key": process.env.KEY };
        const request = require("https").get("https://api.test:${socketServer}/", { headers });
        request.on("upgrade", (answer, upgraded, head) => {
          upgraded.on("data", (data) => process.stdout.write(data)).on("end", () => process.exit());
          process.stdout.write(head);
          upgraded.write("there");
        });
      });`;
    const { stdout } = await lab.run(egress, `node -e '${script}'`, { KEY: PLACEHOLDER });
    const frames = ["hello", ` there back, ${PLACEHOLDER}`].map(toTextFrame).join("");
    expect(stdout).toBe(`220 hello\nheard ${PLACEHOLDER}\n${frames}`);
    expect(seen).toEqual([VALUE]);
  });

  it("hold at once when they change, and last while the server is away", async () => {
    const seen: string[] = [];
    const port = await lab.serve((request, response) => {
      seen.push(String(request.headers["x-key"]));
      response.end("ok");
    }, certificate);
    const lent: LentSecret[] = [toSecret({ hosts: ["api.test"] })];
    const desk = await openDesk(() => lent);
    const egress = await lendBy(desk.url, { port });
    await lab.startHost(egress);
    const sandbox = lab.startSandbox(
      egress,
      `for i in 1 2 3; do while [ ! -e /run/sluice/go$i ]; do sleep 0.05; done
       curl -sS -H "X-Key: $KEY" https://api.test:${port}/; echo " $i"; done`,
      { KEY: PLACEHOLDER },
    );
    const outcome = collect(sandbox);
    const go = async (round: number): Promise<void> => {
      writeFileSync(join((await egress.start())?.cwd ?? "", `go${round}`), "");
      await said(sandbox, ` ${round}`);
    };
    await go(1);
    lent[0] = toSecret({ hosts: ["api.test"], value: "another-value" });
    const asked = desk.asked();
    // Known secrets are asked for again after a second.
    await new Promise((resolve) => setTimeout(resolve, 1_100));
    await go(2);
    expect(desk.asked()).toBeGreaterThan(asked);
    await desk.close();
    await new Promise((resolve) => setTimeout(resolve, 1_100));
    await go(3);
    await outcome;
    expect(seen).toEqual([VALUE, "another-value", "another-value"]);
  });

  it("are in no file, argument or environment, and the token is never sent to a listener", async () => {
    const port = await lab.serve(echo, certificate);
    const heard: string[] = [];
    const squatter = await lab.serve((request, response) => {
      heard.push(JSON.stringify(request.headers));
      response.end(JSON.stringify({ secrets: [toSecret({ value: "forged-value" })] }));
    });
    const egress = await lendBy(`http://127.0.0.1:${squatter}/s`, { port });
    const { stdout } = await lab.run(
      egress,
      `curl -sS -H "X-Key: $KEY" https://api.test:${port}/ --cacert ${certificate.file}`,
      {
        KEY: PLACEHOLDER,
      },
    );
    expect(stdout).toContain(PLACEHOLDER);
    expect(heard.length).toBeGreaterThan(0);
    for (const words of heard) expect(words).not.toContain(DESK_TOKEN);
    const real = await lend([{ hosts: ["api.test"] }], { port });
    const host = await lab.startHost(real);
    const sandbox = lab.startSandbox(
      real,
      `curl -sS -H "X-Key: $KEY" https://api.test:${port}/; exec sleep 600`,
      {
        KEY: PLACEHOLDER,
      },
    );
    await said(sandbox, "x-key");
    const environment = readFileSync(`/proc/${host?.pid}/environ`, "utf8");
    expect(environment).toContain("SLUICE_BRIDGE");
    expect(environment).not.toContain("9f2c");
  });
});
