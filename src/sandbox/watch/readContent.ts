import { constants } from "node:fs";
import { open, readlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { Pin } from "./pin.ts";

const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;

/** A file of a folder, up to a size; a symlink reads as what it says, and none is followed. */
export async function readContent(
  folder: string,
  path: string,
  maxBytes: number,
): Promise<Buffer | undefined> {
  const pin = Pin.open(join(folder, dirname(path)));
  if (typeof pin === "string") return undefined;
  const place = join(pin.path, basename(path));
  try {
    const handle = await open(place, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    try {
      const found = await handle.stat();
      return found.isFile() && found.size <= maxBytes ? await handle.readFile() : undefined;
    } finally {
      await handle.close();
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ELOOP") return undefined;
    return Buffer.from(await readlink(place).catch(() => ""));
  } finally {
    pin.close();
  }
}
