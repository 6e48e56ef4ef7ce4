import { randomBytes } from "node:crypto";
import { linkSync, rmSync, writeFileSync } from "node:fs";

/** Makes a file that only its owner may read: whole, or not at all. Where there is one already, that one stays. */
export function makeOnce(path: string, content: string | Uint8Array): void {
  const draft = `${path}.${process.pid}.${randomBytes(6).toString("hex")}`;
  try {
    writeFileSync(draft, content, { mode: 0o600, flag: "wx", flush: true });
    // A link appears whole, and fails where another process was first.
    linkSync(draft, path);
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
  } finally {
    rmSync(draft, { force: true });
  }
}
