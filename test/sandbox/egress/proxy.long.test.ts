import { existsSync } from "node:fs";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { afterAll, afterEach, expect, it } from "vitest";
import { EgressLab, describeWithBwrap } from "./lab.ts";
import { waitFor } from "../workbench.ts";

const lab = new EgressLab();
afterEach(() => lab.clear());
afterAll(() => lab.remove());

describeWithBwrap("the way out of a sandbox", () => {
  it("leads to an allowed host by http", async () => {
    const port = await lab.serve((request, response) =>
      response.end(`${request.headers.host} ${request.url}`),
    );
    const { egress } = await lab.egress({
      policy: { mode: "allow", hosts: [`model.test:${port}`], private: ["model.test"] },
      names: { "model.test": ["127.0.0.1"] },
    });
    const { stdout } = await lab.run(egress, `curl -sS 'http://model.test:${port}/a/b?c=d'`);
    expect(stdout).toBe(`model.test:${port} /a/b?c=d`);
  });

  it("leads to an allowed host by https, which stays closed to the egress proxy", async () => {
    const { cert, key, file } = lab.certificate("model.test");
    const port = await lab.serve((request, response) => void request.pipe(response), { cert, key });
    const { egress } = await lab.egress({
      policy: { mode: "allow", hosts: [`model.test:${port}`], private: ["model.test"] },
      names: { "model.test": ["127.0.0.1"] },
    });
    const url = `https://model.test:${port}/`;
    const { stdout, stderr } = await lab.run(egress, `curl -sS --cacert ${file} --data hello ${url}`);
    expect(stderr).toBe("");
    expect(stdout).toBe("hello");
  });

  it("says which host is refused and how to allow it", async () => {
    const { egress } = await lab.egress({ policy: { mode: "allow", hosts: ["model.test"] } });
    const { stdout } = await lab.run(egress, "curl -sS -w '\\n%{http_code}' http://elsewhere.test/");
    expect(stdout).toContain("may not reach elsewhere.test:80");
    expect(stdout).toContain('{"network":{"allow":["elsewhere.test"]}}');
    expect(stdout).toMatch(/403$/);
    const tunnel = await lab.run(
      egress,
      "curl -sS -w '%{http_connect}' -o /dev/null https://elsewhere.test/",
    );
    expect(tunnel.stdout).toBe("403");
    expect(tunnel.code).not.toBe(0);
  });

  it("refuses an allowed name that resolves into the host's network, and never connects there", async () => {
    let touched = 0;
    const port = await lab.listen(createServer(() => touched++));
    const addresses = [
      "127.0.0.1",
      "::1",
      "::ffff:127.0.0.1",
      "169.254.169.254",
      "10.0.0.1",
      "192.168.1.1",
      "fd00::1",
    ];
    const names = Object.fromEntries(addresses.map((address, at) => [`n${at}.test`, [address]]));
    const { egress } = await lab.egress({ policy: { mode: "allow", hosts: ["*.test"] }, names });
    const urls = addresses.map((_address, at) => `http://n${at}.test:${port}/`);
    const { stdout } = await lab.run(
      egress,
      `for u in ${urls.join(" ")}; do curl -sS -w '%{http_code}\\n' $u; done`,
    );
    expect(stdout.match(/^403$/gm)).toHaveLength(addresses.length);
    for (const address of addresses) expect(stdout).toContain(`(${address}, `);
    const tunnel = `curl -sS -o /dev/null -w '%{http_connect}' https://n0.test:${port}/`;
    expect((await lab.run(egress, tunnel)).stdout).toBe("403");
    expect(touched).toBe(0);
  });

  it("does not let a Host header or a spelling of an address stand for another host", async () => {
    const port = await lab.serve((request, response) => response.end(request.headers.host));
    const { egress } = await lab.egress({
      policy: { mode: "allow", hosts: [`model.test:${port}`], private: ["model.test"] },
      names: { "model.test": ["127.0.0.1"] },
    });
    const hosts = [
      "127.0.0.1",
      "127.1",
      "0x7f000001",
      "2130706433",
      "localhost",
      "[::1]",
      "[::ffff:7f00:1]",
      "model.test.evil",
    ];
    const { stdout } = await lab.run(
      egress,
      `curl -sS -H 'Host: elsewhere.test' http://MODEL.test.:${port}/; echo
       for host in ${hosts.join(" ")}; do
         node -e '
           const socket = require("net").connect(47128, "127.0.0.1");
           socket.write("CONNECT " + process.argv[1] + ":${port} HTTP/1.1\\r\\n\\r\\n");
           socket.once("data", (data) => console.log(String(data).split("\\r\\n")[0]) || process.exit());
         ' $host
       done`,
    );
    const [named, ...others] = stdout.trim().split("\n");
    expect(named).toBe(`model.test:${port}`);
    expect(others).toEqual(hosts.map(() => "HTTP/1.1 403 Forbidden"));
  });

  it("opens the named loopback ports, and no other", async () => {
    const named = await lab.serve((_request, response) => response.end("named"));
    const unnamed = await lab.serve((_request, response) => response.end("unnamed"));
    const { egress } = await lab.egress({
      policy: { mode: "allow", hosts: [`127.0.0.1:${named}`] },
    });
    const outcome = await lab.run(
      egress,
      `curl -sS http://127.0.0.1:${named}/; echo; curl -sS http://localhost:${named}/; echo
       curl -s http://127.0.0.1:${unnamed}/; echo $?
       curl -s --noproxy '*' http://127.0.0.1:${unnamed}/; echo $?
       curl -s --noproxy '' -o /dev/null -w '%{http_code}\\n' http://127.0.0.1:${unnamed}/`,
    );
    expect(outcome.stdout).toBe("named\nnamed\n7\n7\n403\n");
  });

  it("reaches localhost by either family of address", async () => {
    const server = createServer((socket) => socket.resume().end("six"));
    const port = await lab.listen(server, "::1");
    const { egress } = await lab.egress({ policy: { mode: "loopback" }, extraHosts: [`localhost:${port}`] });
    expect(egress.needed).toBe(true);
    const script = `for h in 127.0.0.1 '[::1]'; do curl -sS --noproxy '*' --http0.9 http://$h:${port}/; echo; done`;
    expect((await lab.run(egress, script)).stdout).toBe("six\nsix\n");
  });

  it("has no other way than the egress proxy", async () => {
    const port = await lab.serve((_request, response) => response.end("reached"));
    const { egress } = await lab.egress({ policy: { mode: "allow", hosts: ["model.test"] } });
    const { stdout } = await lab.run(
      egress,
      `unset HTTP_PROXY HTTPS_PROXY ALL_PROXY http_proxy https_proxy all_proxy
       curl -s http://127.0.0.1:${port}/; echo $?
       ls /sys/class/net 2>/dev/null; cat /proc/net/route | wc -l; cat /proc/net/dev | tail -n +3 | cut -d: -f1`,
    );
    expect(stdout).toMatch(/^7\n/);
    expect(stdout).not.toContain("reached");
    expect(stdout.trim().split("\n").at(-1)?.trim()).toBe("lo");
  });

  it("carries bodies of a megabyte both ways, and streams as they come", async () => {
    const port = await lab.serve((request, response) => {
      if (request.url === "/stream") {
        response.writeHead(200, { "content-type": "text/event-stream" });
        response.write("data: 1\n\n");
        // Only a client that has seen the first event can ask for the rest.
        waiting = () => response.end("data: 2\n\n");
        return;
      }
      if (request.url === "/go") {
        waiting?.();
        return void response.end();
      }
      request.pipe(response);
    });
    let waiting: (() => void) | undefined;
    const { egress } = await lab.egress({
      policy: { mode: "allow", hosts: [`model.test:${port}`], private: ["model.test"] },
      names: { "model.test": ["127.0.0.1"] },
    });
    const base = `http://model.test:${port}`;
    const { stdout } = await lab.run(
      egress,
      `d=$(mktemp -d /dev/shm/x.XXXX); head -c 1048576 /dev/urandom > $d/a
       curl -sS --data-binary @$d/a ${base}/echo -o $d/b && cmp $d/a $d/b && echo same
       curl -sS -H 'Transfer-Encoding: chunked' --data-binary @$d/a ${base}/echo -o $d/b && cmp $d/a $d/b && echo same
       curl -sSN ${base}/stream | while read -r line; do
         echo "$line"; [ "$line" = "data: 1" ] && curl -sS ${base}/go
       done`,
    );
    expect(stdout.split("\n").filter(Boolean)).toEqual(["same", "same", "data: 1", "data: 2"]);
  });

  it("carries 200 connections at once", async () => {
    const held: (() => void)[] = [];
    const port = await lab.serve((request, response) => {
      held.push(() => response.end(`answer ${request.url}\n`));
      // None is answered before all are there.
      if (held.length === 200) for (const release of held) release();
    });
    const { egress } = await lab.egress({
      policy: { mode: "allow", hosts: [`model.test:${port}`], private: ["model.test"] },
      names: { "model.test": ["127.0.0.1"] },
    });
    const url = `http://model.test:${port}/[1-200]`;
    const { stdout } = await lab.run(egress, `curl -sS -Z --parallel-max 200 --parallel-immediate '${url}'`);
    expect(new Set(stdout.trim().split("\n")).size).toBe(200);
    expect(held).toHaveLength(200);
  });

  it("is bounded in connections and in headers", async () => {
    const { egress } = await lab.egress({ policy: { mode: "allow", hosts: ["model.test"] } });
    const { stdout } = await lab.run(
      egress,
      `h=$(head -c 40000 /dev/zero | tr '\\0' x)
       curl -sS -o /dev/null -w '%{http_code}\\n' -H "a: $h" http://model.test/
       cat > /dev/shm/many.mjs <<'END'
       import { connect } from "node:net";
       const sockets = Array.from({ length: 520 }, () => connect(47128, "127.0.0.1"));
       const answers = await Promise.race(sockets.map((s) => new Promise((done) => s.once("data", (d) => done(String(d))))));
       console.log(answers.split("\\r\\n")[0]);
       process.exit();
END
       node /dev/shm/many.mjs
       sleep 0.2; curl -sS -o /dev/null -w '%{http_code}\\n' http://elsewhere.test/`,
    );
    expect(stdout).toBe("431\nHTTP/1.1 503 Service Unavailable\n403\n");
  });

  it("goes on after any input", async () => {
    const port = await lab.serve((request, response) => {
      if (request.url === "/cut") return void response.write("half", () => request.socket.resetAndDestroy());
      response.end("whole");
    });
    const { egress, folder } = await lab.egress({ extraHosts: [`127.0.0.1:${port}`] });
    const host = await lab.startHost(egress);
    const socket = join(folder, "egress.sock");
    await waitFor(async () => existsSync(socket));
    const target = `127.0.0.1:${port}`;
    const requests = [
      `CONNECT ${target} HTTP/1.1\r\n\r\nGET /cut HTTP/1.1\r\nHost: x\r\n\r\n`,
      `CONNECT ${target} HTTP/1.1\r\n\r\n`,
      `GET http://${target}/cut HTTP/1.1\r\nHost: x\r\n\r\n`,
      `POST http://${target}/ HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhal`,
      `POST http://${target}/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n`,
      "CONNECT / HTTP/1.1\r\n\r\n",
      "CONNECT [::::]:1 HTTP/1.1\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
      "GET http:// HTTP/1.1\r\nHost: x\r\n\r\n",
      "GET http://a:99999/ HTTP/1.1\r\nHost: x\r\n\r\n",
      "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
      `GET http://${target}/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`,
      "\u0016\u0003\u0001 no http at all",
    ];
    const send = (text: string, cut: boolean): Promise<void> =>
      new Promise((resolve) => {
        const client = connect(socket, () => client.write(text, () => cut && client.destroy()));
        client.on("error", () => {}).on("close", () => resolve());
        client.on("data", () => client.destroy());
        client.setTimeout(200, () => client.destroy());
      });
    for (const cut of [true, false]) await Promise.all(requests.map((text) => send(text, cut)));
    for (let at = 1; at < 60; at += 3)
      await Promise.all(requests.map((text) => send(text.slice(0, at), true)));
    const { stdout } = await lab.run(egress, `curl -sS http://${target}/`);
    expect(stdout).toBe("whole");
    expect(host?.exitCode).toBeNull();
  });

  it("is the way of git, python and npm, as their environment tells them", async () => {
    const agents = new Set<string | undefined>();
    const port = await lab.serve((request, response) => {
      agents.add(request.headers["user-agent"]?.split("/")[0]);
      response.setHeader("content-type", "application/json");
      response.end("{}");
    });
    const { egress } = await lab.egress({
      policy: { mode: "allow", hosts: [`model.test:${port}`], private: ["model.test"] },
      names: { "model.test": ["127.0.0.1"] },
    });
    const base = `http://model.test:${port}`;
    await lab.run(
      egress,
      `python3 -c 'import urllib.request as u; u.urlopen("${base}/")'
       npm view left name --registry ${base} --cache /dev/shm/npm
       git ls-remote ${base}/x.git`,
      { HOME: "/nonexistent", PATH: "/usr/local/bin:/usr/bin:/bin" },
    );
    expect([...agents].toSorted()).toEqual(["Python-urllib", "git", "npm"]);
  });
});
