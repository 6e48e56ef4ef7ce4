import { get } from "node:http";
import { networkInterfaces } from "node:os";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ended, printed, Workbench } from "../cli/workbench.ts";

let bench: Workbench;
beforeEach(() => {
  bench = new Workbench();
});
afterEach(() => bench.close());

interface Served {
  readonly ask: (host: string) => Promise<{ status: number; text: string }>;
  stop(): Promise<unknown>;
}

async function serve(args: readonly string[]): Promise<Served> {
  const child = bench.start(["serve", "--port", "0", "--token", "t", ...args]);
  const line = await printed(child, /\n/);
  const port = Number(/:(\d+)\n/.exec(line)?.[1]);
  const address = line.includes("[::") ? "::1" : "127.0.0.1";
  return {
    ask: (host) =>
      new Promise((resolve, reject) => {
        const headers = { host, authorization: "Bearer t" };
        get({ host: address, port, path: "/v1/sessions", headers }, (answer) => {
          let text = "";
          answer.on("data", (chunk: Buffer) => (text += chunk.toString()));
          answer.on("end", () => resolve({ status: answer.statusCode ?? 0, text }));
        }).once("error", reject);
      }),
    async stop() {
      const end = ended(child);
      child.kill("SIGTERM");
      return end;
    },
  };
}

const hasIPv6 = Object.values(networkInterfaces()).some((all) =>
  all?.some(({ family }) => family === "IPv6"),
);
const own = Object.values(networkInterfaces())
  .flatMap((all) => all ?? [])
  .filter(({ scopeid }) => !scopeid)
  .map(({ address, family }) => (family === "IPv6" ? `[${address}]` : address));

describe.each([
  ["0.0.0.0", true],
  ["::", hasIPv6],
])("a server that listens on %s", (host, isThere) => {
  it.skipIf(!isThere)(
    isThere ? "answers to no name that it was not told" : "answers to no other name (skipped: no IPv6 here)",
    async () => {
      const { ask, stop } = await serve(["--host", host, "--allow-host", "agents.example"]);
      const statusOf = async (name: string): Promise<number> => (await ask(name)).status;
      for (const name of [
        "localhost",
        "localhost:1",
        "127.0.0.1",
        "[::1]",
        "agents.example",
        "AGENTS.example:443",
      ])
        expect([name, await statusOf(name)]).toEqual([name, 200]);
      for (const name of own) expect([name, await statusOf(name)]).toEqual([name, 200]);
      for (const name of [
        "evil.example",
        "agents.example.evil.example",
        "localhost.evil.example",
        "93.184.216.34",
        "[2001:db8::1]",
        "0.0.0.0",
        "*",
      ])
        expect([name, await statusOf(name)]).toEqual([name, 421]);
      expect((await ask("evil.example")).text).toContain("--allow-host evil.example");
      await stop();
    },
  );

  it.skipIf(!isThere)("answers to any name only where it was told so", async () => {
    const { ask, stop } = await serve(["--host", host, "--allow-host", "*"]);
    expect((await ask("anything.example")).status).toBe(200);
    await stop();
  });
});

it("a server that listens on one address keeps --allow-host too", async () => {
  const { ask, stop } = await serve(["--host", "127.0.0.1", "--allow-host", "agents.example"]);
  expect((await ask("agents.example")).status).toBe(200);
  expect((await ask("evil.example")).status).toBe(421);
  await stop();
});

it("no address at all is refused", async () => {
  const { code, err } = await bench.run(["serve", "--port", "0", "--host", ""]);
  expect([code, err]).toEqual([2, expect.stringContaining("127.0.0.1")]);
});
