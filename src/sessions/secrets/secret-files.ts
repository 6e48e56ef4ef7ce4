import { randomBytes } from "node:crypto";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { dirname, join, resolve, sep } from "node:path";
import type { SessionSpec } from "../../contract/index.ts";

const INLINE = "value:";

/** Stores the session's secret values in files and returns the spec with references to them, for the log. */
export async function keepSecrets(spec: SessionSpec, dataDir: string): Promise<SessionSpec> {
  const given = Object.entries(spec.secrets ?? {});
  if (!given.some(([, reference]) => reference.startsWith(INLINE))) return spec;
  const folder = join(rootOf(dataDir), randomBytes(16).toString("hex"));
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const kept = await Promise.all(
    given.map(async ([name, reference]): Promise<[string, string]> => {
      if (!reference.startsWith(INLINE)) return [name, reference];
      const file = join(folder, name);
      await writeFile(file, `${reference.slice(INLINE.length)}\n`, { mode: 0o600 });
      return [name, `file:${file}`];
    }),
  );
  return { ...spec, secrets: Object.fromEntries(kept) };
}

export async function forgetSecrets(spec: SessionSpec, dataDir: string): Promise<void> {
  const root = rootOf(dataDir) + sep;
  const files = Object.values(spec.secrets ?? {}).map((reference) => reference.replace(/^file:/, ""));
  const folders = new Set(files.filter((file) => file.startsWith(root)).map(dirname));
  for (const folder of folders) await rm(folder, { recursive: true, force: true });
}

function rootOf(dataDir: string): string {
  return join(resolve(dataDir), "secrets");
}
