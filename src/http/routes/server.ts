import type { Mount } from "../mount.ts";
import { toMetrics } from "../metrics.ts";
import { operations } from "../operations.ts";
import type { Services } from "../services.ts";

/** The server's own calls. */
export function mountServer(mount: Mount, services: Services): void {
  const { version } = services;
  let document: Promise<string> | undefined;
  const describe = async (): Promise<string> => {
    const { toOpenApi } = await import("../openapi.ts");
    return JSON.stringify(toOpenApi({ version }));
  };

  mount(operations.health, ({ c }) => c.json({ status: "ok", version }));
  mount(operations.healthz, ({ c }) => c.json({ status: "ok" }));
  mount(operations.metrics, ({ c }) =>
    c.body(toMetrics(services), 200, { "content-type": "text/plain; version=0.0.4; charset=utf-8" }),
  );
  mount(operations.openapi, async ({ c }) => {
    document ??= describe();
    return c.body(await document, 200, { "content-type": "application/json" });
  });
  mount(operations.home, ({ c }) => c.html(PAGE));
}

const PAGE = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>sluice</title>
<style>body{font:16px/1.5 system-ui;max-width:40rem;margin:4rem auto;padding:0 1rem}code{background:#8882;padding:0 .2em}</style>
<h1>sluice</h1>
<p>This server runs coding agents in a sandbox and keeps one durable event log per session.</p>
<p>Its API is under <code>/v1</code>, described by <a href="/openapi.json"><code>/openapi.json</code></a>. Send the
server's token with each request: <code>Authorization: Bearer &lt;token&gt;</code>. <code>sluice doctor</code> says
where the token is.</p>
</html>
`;
