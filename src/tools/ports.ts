import { mkdir, readdir, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** More than this many engines at a time on one data folder do not find each other's runs. */
const MOST_PORTS = 8;

/** The ports that engines on this folder have listened on, the latest first: where their runs look for them. */
export async function readPorts(folder: string): Promise<number[]> {
  const names = await readdir(folderIn(folder)).catch(() => []);
  const found = await Promise.all(
    names
      .map(Number)
      .filter(isPort)
      .map(async (port) => {
        const { mtimeMs = 0 } = (await stat(fileOf(folder, port)).catch(() => undefined)) ?? {};
        return { port, mtimeMs };
      }),
  );
  return found.toSorted((one, other) => other.mtimeMs - one.mtimeMs).map(({ port }) => port);
}

/** A file for each, so that two who remember at the same time do not forget each other's. */
export async function rememberPort(folder: string, port: number): Promise<void> {
  await mkdir(folderIn(folder), { recursive: true, mode: 0o700 });
  await writeFile(fileOf(folder, port), "", { mode: 0o600 });
  const old = (await readPorts(folder)).slice(MOST_PORTS);
  await Promise.all(old.map((forgotten) => rm(fileOf(folder, forgotten), { force: true })));
}

function folderIn(folder: string): string {
  return join(folder, "ports");
}

function fileOf(folder: string, port: number): string {
  return join(folderIn(folder), String(port));
}

function isPort(value: number): boolean {
  return Number.isInteger(value) && value > 0 && value < 65_536;
}
