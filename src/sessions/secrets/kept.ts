import { randomBytes } from "node:crypto";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { dirname, join, resolve, sep } from "node:path";
import { type SessionSpec, SluiceError } from "../../contract/index.ts";

export type Values = Readonly<Record<string, string>>;

/** Where the values of `value:…` secrets are, apart from the log, which has references to them. */
export interface KeptSecrets {
  /** Stores the values, and returns a reference for each. */
  keep(values: Values): Promise<Values>;
  /** The value behind a reference of `keep` that begins with `kept:`; undefined where it is not there. */
  read(name: string, reference: string): Promise<string | undefined>;
  /** Removes the values behind the references. Others are left alone. */
  forget(references: readonly string[]): Promise<void>;
}

const INLINE = "value:";
export const KEPT = "kept:";

export function isKept(reference: string): boolean {
  return reference.startsWith(KEPT);
}

/** Stores the session's secret values and returns the spec with references to them, for the log. */
export async function keepSecrets(spec: SessionSpec, store: KeptSecrets): Promise<SessionSpec> {
  const given = Object.entries(spec.secrets ?? {});
  const foreign = given.find(([, reference]) => isKept(reference));
  // The reference of another session would be a way to its secret.
  if (foreign)
    throw new SluiceError(
      "invalid_request",
      `secrets.${foreign[0]}: a value that is kept for one session is not given to another. Give it as "value:…".`,
    );
  const inline = given.filter(([, reference]) => reference.startsWith(INLINE));
  if (inline.length === 0) return spec;
  const values = inline.map(([name, reference]) => [name, reference.slice(INLINE.length)]);
  const kept = await store.keep(Object.fromEntries(values) as Values);
  return { ...spec, secrets: { ...spec.secrets, ...kept } };
}

export function forgetSecrets(spec: SessionSpec, store: KeptSecrets): Promise<void> {
  return store.forget(Object.values(spec.secrets ?? {}));
}

/** Private files of a data folder. The references are those of any other file. */
export function keepInFiles(dataDir: string): KeptSecrets {
  const root = join(resolve(dataDir), "secrets");
  return {
    async keep(values) {
      const folder = join(root, randomBytes(16).toString("hex"));
      await mkdir(folder, { recursive: true, mode: 0o700 });
      const kept = Object.entries(values).map(async ([name, value]): Promise<[string, string]> => {
        const file = join(folder, name);
        await writeFile(file, `${value}\n`, { mode: 0o600 });
        return [name, `file:${file}`];
      });
      return Object.fromEntries(await Promise.all(kept));
    },
    read: async () => undefined,
    async forget(references) {
      const files = references.map((reference) => reference.replace(/^file:/, ""));
      const folders = new Set(files.filter((file) => file.startsWith(root + sep)).map(dirname));
      for (const folder of folders) await rm(folder, { recursive: true, force: true });
    },
  };
}
