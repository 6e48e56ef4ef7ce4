import { randomBytes } from "node:crypto";
import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export function tokenFile(dataDir: string): string {
  return join(dataDir, "token");
}

export function readToken(dataDir: string): string | undefined {
  try {
    return readFileSync(tokenFile(dataDir), "utf8").trim() || undefined;
  } catch {
    return undefined;
  }
}

/** The token of this data folder, made on the first start. Two servers that start at once agree on one. */
export function ensureToken(dataDir: string): string {
  const kept = readToken(dataDir);
  if (kept) {
    chmodSync(tokenFile(dataDir), 0o600);
    return kept;
  }
  const token = randomBytes(32).toString("base64url");
  try {
    writeFileSync(tokenFile(dataDir), `${token}\n`, { mode: 0o600, flag: "wx" });
    return token;
  } catch (error) {
    const other = readToken(dataDir);
    if ((error as NodeJS.ErrnoException).code !== "EEXIST" || !other) throw error;
    return other;
  }
}
