import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { readAll } from "../../../support/engine.ts";
import { type AnthropicBench } from "../anthropic-bench.ts";

export const URL = "https://mcp.example/mcp";

export const SECRET = "Zq7-hush";

export const oauth = () => ({
  type: "mcp_oauth" as const,
  mcp_server_url: URL,
  access_token: `${SECRET}-access`,
  expires_at: "2999-01-01T00:00:00Z",
  refresh: {
    client_id: "client",
    refresh_token: `${SECRET}-refresh`,
    token_endpoint: "https://auth.example/token",
    token_endpoint_auth: { type: "client_secret_post" as const, client_secret: `${SECRET}-client` },
  },
});

/** Searches all places where a secret could have been written. */
export async function expectNoSecret({ lines, test, folder }: AnthropicBench, given: string): Promise<void> {
  expect(given.length).toBeGreaterThan(1000);
  expect(given).not.toContain(SECRET);
  expect(JSON.stringify(lines)).not.toContain(SECRET);
  const { sessions } = await test.engine.list({ limit: 1000 });
  for (const { sessionId } of sessions)
    expect(JSON.stringify(await readAll(test.log, sessionId, true))).not.toContain(SECRET);
  let looked = 0;
  for (const root of [folder, test.folder]) {
    for (const entry of await readdir(root, { recursive: true, withFileTypes: true })) {
      if (!entry.isFile()) continue;
      const bytes = await readFile(join(entry.parentPath, entry.name));
      expect(bytes.includes(SECRET), entry.name).toBe(false);
      looked += 1;
    }
  }
  expect(looked).toBeGreaterThan(2);
}
