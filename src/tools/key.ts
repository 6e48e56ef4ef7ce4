import { randomBytes } from "node:crypto";
import { link, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

const KEY_BYTES = 32;

/** The secret of a data folder, made on first use. Two engines that start at the same time get the same one. */
export async function readKey(folder: string): Promise<Buffer> {
  const path = join(folder, "key");
  const known = await readFile(path).catch(() => undefined);
  if (known?.length === KEY_BYTES) return known;
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const fresh = `${path}.${randomBytes(6).toString("hex")}`;
  await writeFile(fresh, randomBytes(KEY_BYTES), { mode: 0o600, flag: "wx" });
  try {
    // A link appears whole or not at all, and never replaces another's.
    await link(fresh, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  } finally {
    await rm(fresh, { force: true });
  }
  const key = await readFile(path);
  if (key.length !== KEY_BYTES) throw new Error(`${path} is damaged; remove it and start again`);
  return key;
}
