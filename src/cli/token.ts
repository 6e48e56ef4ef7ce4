import { randomBytes } from "node:crypto";
import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { CliFailure } from "./failure.ts";

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
  const file = tokenFile(dataDir);
  try {
    writeFileSync(file, `${randomBytes(32).toString("base64url")}\n`, { mode: 0o600, flag: "wx" });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
  const token = readToken(dataDir);
  if (token === undefined || !isSendable(token)) {
    throw new CliFailure(
      `The file ${file} holds no token that a client could send: one word of visible ASCII characters. ` +
        "Remove it to have a new one made.",
    );
  }
  chmodSync(file, 0o600);
  return token;
}

/** Whether a token fits into a header, where it must be one word. */
export function isSendable(token: string): boolean {
  return /^[\x21-\x7e]+$/.test(token);
}
