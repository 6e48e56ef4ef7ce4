import { spawnSync } from "node:child_process";
import { afterAll, afterEach, expect, it } from "vitest";
import { EgressLab, collect, describeWithBwrap } from "./lab.ts";

const lab = new EgressLab();
afterEach(() => lab.clear());
afterAll(() => lab.remove());

const SERVER = `
  const { createServer } = require("node:http");
  const answer = (request, response) => response.end(request.socket.localAddress + " " + request.headers.host + "\\n");
  createServer(answer).listen(8000, "0.0.0.0", () => require("node:fs").closeSync(1));
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
});
