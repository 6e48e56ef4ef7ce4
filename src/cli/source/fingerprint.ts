import { existsSync } from "node:fs";
import { join } from "node:path";
import { MovedCatalog } from "../../catalog/postgres/move.ts";
import { MovedLog } from "../../log/move/source.ts";

/** Changes with every write to the log and the catalog of a folder. */
export function fingerprintOf(folder: string): string {
  const log = new MovedLog(folder);
  try {
    const { fingerprint } = log;
    if (!existsSync(join(folder, "catalog.db"))) return fingerprint;
    const catalog = new MovedCatalog(folder);
    try {
      return `${fingerprint} ${catalog.fingerprint}`;
    } finally {
      catalog.close();
    }
  } finally {
    log.close();
  }
}
