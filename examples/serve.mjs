import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { createServer } from "vite";

const BIN = resolve(import.meta.dirname, "../bin/sluice");

/** Serves a page, and a sluice server behind the same address. */
export async function serve(root) {
  const folder = await mkdtemp(join(tmpdir(), "sluice-example-"));
  const args = ["serve", "--port", "0", "--no-token", "--data", join(folder, "data")];
  const sluice = spawn(BIN, args, { stdio: ["ignore", "pipe", "inherit"] });
  const [line] = await once(createInterface({ input: sluice.stdout }), "line");
  const target = String(line).replace("sluice listening on ", "");
  const vite = await createServer({
    root,
    configFile: false,
    logLevel: "error",
    cacheDir: join(folder, "vite"),
    define: { AGENT: JSON.stringify(process.env.AGENT ?? "scripted") },
    server: {
      host: "127.0.0.1",
      port: Number(process.env.PORT ?? 0),
      // The page's own Host is forwarded, because the server accepts pages of its own address only.
      proxy: { "/ag-ui": { target, changeOrigin: false } },
    },
  });
  await vite.listen();
  const { port } = vite.httpServer.address();
  console.log(`open http://127.0.0.1:${port}`);
  const stop = async () => {
    const exited = once(sluice, "exit");
    if (sluice.kill("SIGTERM")) await exited;
    await vite.close();
    await rm(folder, { recursive: true, force: true });
    process.exit(0);
  };
  for (const signal of ["SIGINT", "SIGTERM"]) {
    // Vite would end this process at once, and the server would stay.
    process.removeAllListeners(signal);
    process.once(signal, stop);
  }
}
