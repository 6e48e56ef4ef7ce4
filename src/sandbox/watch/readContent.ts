import { readlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { openRegular, readUpTo } from "../host/open-file.ts";
import { Pin } from "./pin.ts";

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
    const handle = await openRegular(place);
    return await readUpTo(handle, maxBytes).finally(() => handle.close());
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ELOOP") return undefined;
    return Buffer.from(await readlink(place).catch(() => ""));
  } finally {
    pin.close();
  }
}
