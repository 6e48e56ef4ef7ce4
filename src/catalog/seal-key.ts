import { randomBytes } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { SluiceError } from "../contract/index.ts";
import { makeOnce } from "./makeOnce.ts";

const KEY_BYTES = 32;

/** The key in the folder, made on first use. Two processes that make it at once agree on one. */
export function readSealKey(folder: string): Uint8Array {
  const path = join(folder, "catalog.key");
  return readKey(path) ?? makeKey(path);
}

function readKey(path: string): Uint8Array | undefined {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (!stat) return undefined;
  const key = readFileSync(path);
  if (key.length !== KEY_BYTES || (stat.mode & 0o077) !== 0) throw unfit(path);
  return key;
}

function makeKey(path: string): Uint8Array {
  makeOnce(path, randomBytes(KEY_BYTES));
  const key = readKey(path);
  if (!key) throw unfit(path);
  return key;
}

function unfit(path: string): SluiceError {
  return new SluiceError(
    "data_version",
    `${path} must hold ${KEY_BYTES} bytes and be closed to others (chmod 600). Put the right file back; without it the stored secrets are lost.`,
    { path },
  );
}
