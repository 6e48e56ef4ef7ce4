import { createHash } from "node:crypto";
import { accessSync, constants, existsSync, statSync } from "node:fs";
import { mkdir, rename, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { SluiceError } from "../../contract/index.ts";

export function isRunnable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/** The path of an own program below the runner's folder. Its folder is the hash of its content. */
export function programPath(root: string, hash: string, name: string): string {
  if (/^[0-9a-f]{64}$/.test(hash) && /^[\w.-]{1,64}$/.test(name) && !name.startsWith("."))
    return join(root, "programs", hash, name);
  throw new SluiceError("invalid_request", `${hash}/${name} is no name of a program.`);
}

export function hasProgram(path: string): boolean {
  return existsSync(path);
}

export async function keepProgram(path: string, hash: string, content: Buffer): Promise<void> {
  if (createHash("sha256").update(content).digest("hex") !== hash)
    throw new SluiceError("invalid_request", "The program's content does not have the hash of its name.");
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await writeFile(`${path}.${process.pid}`, content, { mode: 0o600 });
  await rename(`${path}.${process.pid}`, path);
}
