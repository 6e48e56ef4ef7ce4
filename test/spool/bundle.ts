import { join, resolve } from "node:path";
import { bundleInto } from "../support/bundle.ts";

/** The spool as one plain module, for programs that are started (and killed) on their own. */
export function bundleSpool(folder: string): Promise<string> {
  return bundleInto(join(folder, "spool.mjs"), resolve(import.meta.dirname, "../../src/spool/index.ts"));
}
