import { afterAll, afterEach, expect, it } from "vitest";
import { EgressLab, describeWithBwrap } from "./lab.ts";

const lab = new EgressLab();
afterEach(() => lab.clear());
afterAll(() => lab.remove());

const PROGRAM = `
  import http from "node:http";
  import https from "node:https";
  const [plain, secure, local, refused] = process.argv.slice(1);
  const read = (module, url) => new Promise((resolve, reject) => {
    module.get(url, async (response) => resolve((await response.toArray()).join(""))).on("error", reject);
  });
  const say = (what) => what.then(console.log, (error) => console.log("failed:", error.cause?.message ?? error.message));
  const body = "x".repeat(1_000_000);
  for (let round = 0; round < 2; round++) {
    await say(fetch(plain).then((answer) => answer.text()));
    await say(fetch(secure, { method: "POST", body }).then((answer) => answer.text()));
    await say(fetch(local).then((answer) => answer.text()));
  }
  await say(read(http, plain));
  await say(read(https, secure));
  await say(read(http, local));
  await say(fetch(refused));
`;

describeWithBwrap("Node without a proxy of its own", () => {
  it("takes the way out with the preload", async () => {
    const { cert, key, file } = lab.certificate("model.test");
    const plain = await lab.serve((request, response) => response.end(`plain ${request.headers.host}`));
    const secure = await lab.serve(
      async (request, response) => void response.end(`secure ${(await request.toArray()).join("").length}`),
      { cert, key },
    );
    const { egress } = await lab.egress({
      policy: {
        mode: "allow",
        hosts: [`model.test:${plain}`, `model.test:${secure}`],
        private: ["model.test"],
      },
      names: { "model.test": ["127.0.0.1"] },
      nodePreload: true,
    });
    const inside = `require("node:http").createServer((q, r) => r.end("inside")).listen(8080, () => require("fs").closeSync(1))`;
    const urls = [
      `http://model.test:${plain}/`,
      `https://model.test:${secure}/`,
      "http://localhost:8080/",
      "https://elsewhere.test/",
    ];
    const { stdout, stderr } = await lab.run(
      egress,
      `listening=$(node -e '${inside}' &); node --input-type=module -e "$PROGRAM" ${urls.join(" ")}`,
      { NODE_EXTRA_CA_CERTS: file, PROGRAM },
    );
    const rounds = [`plain model.test:${plain}`, "secure 1000000", "inside"];
    expect(stdout.trim().split("\n").slice(0, 9), stderr).toEqual([
      ...rounds,
      ...rounds,
      `plain model.test:${plain}`,
      "secure 0",
      "inside",
    ]);
    // A Node that knows proxies tells only the number.
    expect(stdout).toMatch(/failed: .*(may not reach elsewhere\.test:443|403)/);
  });
});
