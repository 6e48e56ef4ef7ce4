import { randomBytes } from "node:crypto";
import { closeSync, constants, openSync, unlinkSync, writeSync } from "node:fs";
import { join } from "node:path";
import { findMemoryFolder } from "./memoryFolder.ts";

/** A descriptor with these bytes behind it, to be inherited and read once. Its file has no name and goes with its last reader. */
export function openSealed(folder: string, bytes: Uint8Array): number {
  const memory = findMemoryFolder();
  if (memory === undefined) return openIn(folder, bytes);
  try {
    return openIn(memory, bytes);
  } catch {
    // It may be full.
    return openIn(folder, bytes);
  }
}

function openIn(folder: string, bytes: Uint8Array): number {
  const path = join(folder, `.sluice-sealed-${randomBytes(8).toString("hex")}`);
  const fd = openSync(path, constants.O_RDWR | constants.O_CREAT | constants.O_EXCL, 0o600);
  try {
    unlinkSync(path);
    // At a position: the descriptor itself has to stand at the beginning for whoever reads it.
    for (let at = 0; at < bytes.length;) at += writeSync(fd, bytes, at, bytes.length - at, at);
    return fd;
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}
