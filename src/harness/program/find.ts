import { accessSync, constants, statSync } from "node:fs";
import { delimiter, isAbsolute, join } from "node:path";

/** The first program of that name on the search path. Folders that depend on where the server was started do not count. */
export function findOnPath(name: string, path = process.env["PATH"] ?? ""): string | undefined {
  if (name === "" || name.includes("/")) return undefined;
  return path
    .split(delimiter)
    .filter((folder) => isAbsolute(folder))
    .map((folder) => join(folder, name))
    .find(isProgram);
}

export function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
