import vm from "node:vm";
import { rolldown } from "rolldown";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { type CuttingServer, startCuttingServer } from "./cutting-server.ts";

let bundle: string;
const servers: CuttingServer[] = [];

beforeAll(async () => {
  const build = await rolldown({
    input: new URL("../../src/client/index.ts", import.meta.url).pathname,
    platform: "browser",
    // An import that a browser cannot resolve fails here.
    external: [],
  });
  const { output } = await build.generate({ format: "iife", name: "sluice" });
  await build.close();
  expect(output).toHaveLength(1);
  bundle = output[0].code;
});

afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()));
});

describe("the client in a browser", () => {
  it("is one self-contained file without Node's modules", () => {
    expect(bundle).not.toMatch(/node:|require\(|\bprocess\.|\bBuffer\b|import\s*\(|^import /m);
  });

  it("has no schema library", () => {
    expect(bundle).not.toMatch(/ZodType|\$ZodCheck/);
    expect(bundle.length).toBeLessThan(48_000);
  });

  it("subscribes across a cut with web globals alone", async () => {
    const ended = { sequence: 3, type: "session.ended", data: {} };
    const events = [1, 2].map((sequence) => ({ sequence, type: "item.delta", data: { delta: "ü" } }));
    const server = await startCuttingServer({
      events: [...events, ended],
      cut: (n) => (n === 0 ? { bytes: 100, how: "reset" } : undefined),
    });
    servers.push(server);
    const page = vm.createContext({
      fetch,
      AbortController,
      Headers,
      TextDecoder,
      URLSearchParams,
      crypto,
      setTimeout,
      clearTimeout,
      url: server.url,
    });
    vm.runInContext(bundle, page);
    const seen: unknown = await vm.runInContext(
      `(async () => {
        const seen = [];
        for await (const event of sluice.createClient({ url }).subscribe("s")) seen.push(event.sequence);
        return JSON.stringify(seen);
      })()`,
      page,
    );
    expect(seen).toBe("[1,2,3]");
  });
});
