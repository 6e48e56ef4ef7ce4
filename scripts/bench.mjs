import { join } from "node:path";
import { endAs, ensureBuilt, ensureInstalled, ensureIsolation, ROOT, run } from "./setup.mjs";

await ensureInstalled();
await ensureIsolation();
await ensureBuilt();
const bundle = join(ROOT, "node_modules", ".cache", "sluice-bench");
await bundleTo(bundle);
endAs(await run(process.execPath, [join(bundle, "main.js"), ...process.argv.slice(2)]));

/** The measurements are TypeScript that imports from src/. A bundle below node_modules finds its packages. */
async function bundleTo(dir) {
  const { rolldown } = await import("rolldown");
  const built = await rolldown({
    cwd: ROOT,
    input: {
      main: "bench/main.ts",
      "read-worker": "bench/workers/read-worker.ts",
      "prompt-worker": "bench/workers/prompt-worker.ts",
      "ingest-worker": "bench/workers/ingest-worker.ts",
      "memory-hook": "bench/workers/memory-hook.ts",
      "lean-worker": "bench/workers/lean-worker.ts",
      "bare-server": "bench/workers/bare-server.ts",
      "model-server": "bench/workers/model-server.ts",
      "acp-agent": "bench/contenders/acp-agent.ts",
    },
    platform: "node",
    external: /^[^./]/,
    logLevel: "warn",
  });
  await built.write({ dir, format: "esm", entryFileNames: "[name].js" });
  await built.close();
}
