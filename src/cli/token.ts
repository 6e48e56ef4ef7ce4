import { randomBytes } from "node:crypto";
import { chmodSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { makeOnce } from "../catalog/makeOnce.ts";
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
  if (!existsSync(file)) makeToken(file);
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

function makeToken(file: string): void {
  try {
    makeOnce(file, `${randomBytes(32).toString("base64url")}\n`);
  } catch (error) {
    const why = (error as Error).message;
    throw new CliFailure(
      `The token cannot be kept in ${file} (${why}). Make room or give access there, or choose another folder with --data.`,
    );
  }
}

/** Whether a token fits into a header, where it must be one word. */
export function isSendable(token: string): boolean {
  return /^[\x21-\x7e]+$/.test(token);
}
