import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { createMemoryCatalog } from "../../../../src/catalog/index.ts";
import { createLoopback } from "../../../../src/http/anthropic/vaults/loopback.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-loopback-"));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

it("listens on the next call after one that failed", async () => {
  const catalog = createMemoryCatalog();
  const portFile = join(folder, "data", "relay.port");
  const loopback = createLoopback(
    { catalog, purpose: "mcp", portFile, failureStatus: 500 },
    async (_key, request, response) => void response.end(request.url),
  );
  // A file in the place of the folder, as after a wrong restore.
  writeFileSync(join(folder, "data"), "");
  await expect(loopback.start()).rejects.toThrow();
  rmSync(join(folder, "data"));
  const { port } = await loopback.start();
  expect(await (await fetch(`http://127.0.0.1:${port}/hello`)).text()).toBe("/hello");
  await loopback.close();
  await catalog.close();
});
