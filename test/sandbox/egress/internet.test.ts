import { spawnSync } from "node:child_process";
import { afterAll, afterEach, expect, it } from "vitest";
import { EgressLab, collect, describeWithBwrap } from "./lab.ts";

const lab = new EgressLab();
afterEach(() => lab.clear());
afterAll(() => lab.remove());

const SERVER = `
  const { createServer } = require("node:http");
  const answer = (request, response) => response.end(request.socket.localAddress + " " + request.headers.host + "\\n");
  const raw = require("node:net").createServer((socket) => socket.on("error", () => {}).on("data", (data) => socket.write(data)));
  raw.listen(2200, "0.0.0.0", () =>
    createServer(answer).listen(8000, "0.0.0.0", () => require("node:fs").closeSync(1)));
`;

/** Opens a tunnel to its first argument, sends each further one after an answer, and prints the answers' last lines. */
const TUNNEL = `
  const [to, ...texts] = process.argv.slice(1);
  const socket = require("node:net").connect(47128, "127.0.0.1");
  const answers = [];
  let answer = "";
  socket.write("CONNECT " + to + " HTTP/1.1\\r\\n\\r\\n");
  socket.on("data", (data) => {
    answer += data;
    const [head, body] = answer.split("\\r\\n\\r\\n");
    const length = Number(/content-length: (\\d+)/i.exec(head)?.[1] ?? 0);
    if (answer.startsWith("HTTP/") ? body === undefined || body.length < length : !answer.endsWith("\\n")) return;
    answers.push(answer.trim().split("\\n").slice(-2).join(" ").trim());
    answer = "";
    if (texts.length === 0) return socket.destroy();
    socket.write(texts.shift().replaceAll("|", "\\r\\n"));
  });
  socket.on("error", () => {}).on("close", () => console.log(JSON.stringify(answers.slice(1).concat(answer || []))));
`;

/** A network namespace that takes all of 93.184.0.0/16 for itself while it has but one of its addresses. */
const INTERNET = `
  ip route add local 93.184.0.0/16 dev lo && ip addr add 93.184.1.1/32 dev lo || exit 1
  listening=$(node -e '${SERVER}' &)
  exec "$@"`;
const ISOLATION =
  "--unshare-user --unshare-net --unshare-pid --die-with-parent --uid 0 --gid 0 --cap-add ALL";
const SYSTEM = "--bind / / --dev-bind /dev /dev --proc /proc";
const inInternet = ["bwrap", ...`${ISOLATION} ${SYSTEM} sh -c`.split(" "), INTERNET, "internet"];

const missing = spawnSync("ip", ["-V"]).status !== 0;
if (missing && process.env["CI"] === "true") {
  throw new Error(
    "ip is missing, and under CI=true its tests must run; install it: apt-get install iproute2",
  );
}

describeWithBwrap("the way to the internet", () => {
  it.skipIf(missing)(
    "leads to the hosts of the list, and not to the machine's own address among them",
    async () => {
      const { egress } = await lab.egress({
        policy: { mode: "allow", hosts: ["api.test", "*.wild.test", "93.184.7.7", "own.test"] },
        names: {
          "api.test": ["93.184.2.2"],
          "a.b.wild.test": ["10.0.0.1", "93.184.3.3"],
          "wild.test": ["93.184.4.4"],
          "own.test": ["93.184.1.1"],
        },
      });
      // Only here, where nothing leads to the real one.
      await lab.startHost(egress, inInternet);
      const hosts = ["api.test", "a.b.wild.test", "93.184.7.7", "wild.test", "93.184.8.8", "own.test"];
      const sandbox = `for h in ${hosts.join(" ")}; do curl -sS http://$h:8000/ | head -n 1; done`;
      const { stdout } = await collect(lab.startSandbox(egress, sandbox));
      const lines = stdout.trim().split("\n");
      expect(lines.slice(0, 3)).toEqual([
        "93.184.2.2 api.test:8000",
        "93.184.3.3 a.b.wild.test:8000",
        "93.184.7.7 93.184.7.7:8000",
      ]);
      expect(lines[3]).toContain("may not reach wild.test:8000: the host is not in the session's allow list");
      expect(lines[4]).toContain(
        "may not reach 93.184.8.8:8000: the host is not in the session's allow list",
      );
      expect(lines[5]).toContain(
        "may not reach own.test:8000: it lies in the network of the machine that runs sluice",
      );
    },
  );

  it.skipIf(missing)("leads to every public host where * is allowed, and to nothing else", async () => {
    const { egress } = await lab.egress({
      policy: { mode: "allow", hosts: ["*"] },
      names: { "any.test": ["93.184.2.2"], "own.test": ["93.184.1.1"], "rebound.test": ["127.0.0.1"] },
    });
    await lab.startHost(egress, inInternet);
    const hosts = ["any.test", "93.184.7.7", "own.test", "rebound.test", "10.0.0.1", "169.254.169.254"];
    const sandbox = `for h in ${hosts.join(" ")}; do curl -sS http://$h:8000/ | head -n 1; done
      curl -sS --noproxy '*' -m 5 http://93.184.7.7:8000/ 2>&1 | head -n 1
      curl -sS --noproxy '' http://127.0.0.1:8000/ 2>&1 | head -n 1`;
    const { stdout } = await collect(lab.startSandbox(egress, sandbox));
    const lines = stdout.trim().split("\n");
    expect(lines.slice(0, 2)).toEqual(["93.184.2.2 any.test:8000", "93.184.7.7 93.184.7.7:8000"]);
    for (const [at, host] of hosts.entries())
      if (at > 1) expect(lines[at]).toContain(`may not reach ${host}:8000`);
    // Past the proxy there is no network at all.
    expect(lines[6]).toMatch(/curl: \(7\)/);
    expect(lines[7]).toContain("may not reach 127.0.0.1:8000");
  });

  it.skipIf(missing)(
    "carries plain HTTP in a tunnel to the host that was asked for, and to no other",
    async () => {
      const names = { "good.test": ["93.184.2.2"], "port.test": ["93.184.3.3"] };
      const policy = { mode: "allow" as const, hosts: ["good.test", "port.test:8000"] };
      const { egress } = await lab.egress({ policy, names });
      await lab.startHost(egress, inInternet);
      const own = get("GOOD.test:8000");
      const requests = [
        `good.test:8000 ${own} ${get("evil.test")} ${own}`,
        `good.test:8000 ${get("good.test", "GET http://evil.test/ HTTP/1.1")}`,
        `good.test:8000 '|GET / HTTP/1.1|Host: evil.test||'`,
        `good.test:8000 'GET / HTTP/1.1|Host: good.test|Host: evil.test||'`,
        `good.test:8000 'GET / HTTP/1.1|Host: evil.test|Connection: upgrade|Upgrade: websocket||'`,
        `port.test:8000 ${get("evil.test")}`,
        `port.test:8000 ${get("evil.test", "_X / HTTP/1.1")}`,
        `port.test:8000 'PRI * HTTP/2.0||SM||'`,
      ];
      const script = toInput(requests.map((request) => `node -e "$CODE" ${request}`).join("\n"));
      const { stdout } = await collect(lab.startSandbox(egress, script));
      const [first, ...others] = stdout
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line) as string[]);
      expect(first?.[0]).toBe("93.184.2.2 good.test:8000");
      expect(first?.[1]).toContain('opened to good.test:8000, and the request on it asks for "evil.test"');
      expect(first?.[2]).toBe(first?.[0]);
      expect(others).toHaveLength(requests.length - 1);
      for (const answers of others) {
        expect(answers.join()).toMatch(/^sluice: (this connection was opened to|this is no HTTP request)/);
      }
    },
  );

  it.skipIf(missing)("carries other protocols only to a port that the list names", async () => {
    const names = { "any.test": ["93.184.2.2"], "raw.test": ["93.184.3.3"] };
    const policy = { mode: "allow" as const, hosts: ["*", "raw.test:2200"] };
    const { egress } = await lab.egress({ policy, names });
    await lab.startHost(egress, inInternet);
    const texts = ["SSH-2.0-x|", "*1|$4|PING|", "PING|"];
    const runs = ["any.test", "raw.test"].flatMap((host) =>
      texts.map((text) => `node -e "$CODE" ${host}:2200 '${text}'`),
    );
    const { stdout } = await collect(lab.startSandbox(egress, toInput(runs.join("\n"))));
    const lines = stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as string[]);
    const [ssh, resp, word, ...named] = lines.map((answers) => answers.join());
    for (const refused of [ssh, resp]) expect(refused).toContain('{"network":{"allow":["any.test:2200"]}}');
    expect(word).toContain("sluice: this is no HTTP request");
    expect(named).toEqual(["SSH-2.0-x", "$4\r PING", "PING"]);
  });
});

/** An argument of the program of a tunnel. */
function get(host: string, line = "GET / HTTP/1.1"): string {
  return `'${line}|Host: ${host}||'`;
}

/** A script that has the program of a tunnel in $CODE. */
function toInput(script: string): string {
  return `CODE=$(cat <<'END'\n${TUNNEL}\nEND\n)\n${script}`;
}
