import { SluiceClientError } from "../../client/index.ts";
import { SluiceError } from "../../contract/index.ts";
import type { SessionFiles } from "../sandboxes.ts";
import type { Side } from "./side.ts";

/** The files of a session's sandbox, which itself sees to it that no path leads outside. */
export function createSandboxSide(files: SessionFiles, session: string): Side {
  return {
    async kind(path) {
      const found = await files.stat(path).catch(ignoreAbsent);
      if (!found) return undefined;
      if (found.entryType !== "symlink") return found.entryType;
      const isFolder = await files.list(path).then(
        () => true,
        () => false,
      );
      return isFolder ? "directory" : "file";
    },
    size: async (path) => (await files.stat(path)).size,
    async list(path) {
      const entries = await files.list(path);
      return entries.map(({ name, entryType, size }) => ({ name, kind: entryType, size }));
    },
    read: (path) => files.read(path),
    write: (path, content) => files.write(path, content),
    mkdir: (path) => files.mkdir(path),
    show: (path) => `${session}:${path}`,
  };
}

function ignoreAbsent(error: unknown): undefined {
  const known = error instanceof SluiceError || error instanceof SluiceClientError;
  if (!known || error.code !== "file_not_found") throw error;
}
