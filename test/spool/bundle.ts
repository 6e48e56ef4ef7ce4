import { join, resolve } from "node:path";
import { rolldown } from "rolldown";

/** The spool as one plain module, for programs that are started (and killed) on their own. */
export async function bundleSpool(folder: string): Promise<string> {
  const bundle = await rolldown({
    input: resolve(import.meta.dirname, "../../src/spool/index.ts"),
    platform: "node",
    logLevel: "silent",
  });
  const file = join(folder, "spool.mjs");
  await bundle.write({ file, format: "esm" });
  await bundle.close();
  return file;
}
