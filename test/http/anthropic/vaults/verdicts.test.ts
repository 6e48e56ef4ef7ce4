import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { createMemoryCatalog } from "../../../../src/catalog/index.ts";
import type { McpServer } from "../../../../src/contract/index.ts";
import { createMcpRelay } from "../../../../src/http/index.ts";

it("keeps a bounded number of the relay's verdicts, and none over a new start of the agent", async () => {
  const folder = await mkdtemp(join(tmpdir(), "sluice-relay-"));
  const catalog = createMemoryCatalog();
  const relay = createMcpRelay({ catalog, folder, mostVerdicts: 2 });
  try {
    // Nothing listens on port 1.
    const mcp = { files: { type: "http", url: "http://127.0.0.1:1/" } } satisfies Record<string, McpServer>;
    const body = { agent: { mcp_servers: [{ name: "files", ...mcp.files }] }, vault_ids: [] };
    const equip = async (id: string) => {
      const { mcp: relayed } = await relay.equip(id, { agent: "scripted", mcp });
      return relayed?.["files"] as { url: string; headers: Record<string, string> };
    };
    for (const id of ["one", "two", "three"]) {
      await catalog.write("default", [{ op: "create", kind: "session", id, body }]);
      const { url, headers } = await equip(id);
      expect((await fetch(url, { method: "POST", headers, body: "{}" })).status).toBe(502);
      expect(relay.verdict(id, "files")).toBe("unreachable");
    }
    expect(relay.verdict("one", "files")).toBeUndefined();
    expect(relay.verdict("two", "files")).toBe("unreachable");
    await equip("two");
    expect(relay.verdict("two", "files")).toBeUndefined();
  } finally {
    await relay.close();
    await catalog.close();
    await rm(folder, { recursive: true });
  }
});
