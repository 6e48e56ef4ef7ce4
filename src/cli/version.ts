import { createRequire } from "node:module";

/** The version of the package that this runs from, wherever the build put this file. */
export function readVersion(): string {
  const { version } = createRequire(import.meta.url)("sluice/package.json") as { version: string };
  return version;
}
