import { randomUUID } from "node:crypto";
import {
  closeSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { SluiceError } from "../../contract/index.ts";
import { toFolderName } from "../host/folder.ts";

/** How long the epoch of a destroyed sandbox is kept: longer than any call of an earlier server is on its way. */
const KEPT_MS = 7 * 24 * 60 * 60 * 1000;

/**
 * The newest epoch of each sandbox's session. Each is a file with the epoch as its name: a runner that adds one cannot
 * take away a newer one of another runner.
 */
export class Epochs {
  readonly #root: string;

  constructor(root: string) {
    this.#root = root;
  }

  /** Refuses a server whose session another server has taken over. */
  admit(id: string, epoch: number): void {
    const known = this.#newest(id);
    if (epoch > known.epoch) {
      this.#add(id, epoch);
      for (const older of known.names) rmSync(join(this.#folder(id), older), { force: true });
    }
    // Another runner may have added a newer one meanwhile.
    const newest = epoch === known.epoch ? epoch : this.#newest(id).epoch;
    if (epoch >= newest) return;
    const detail = `The sandbox ${id} belongs to epoch ${newest} of its session, and this call has ${epoch}.`;
    throw new SluiceError("fenced", detail);
  }

  /** Forgets the sandboxes that were destroyed long ago. */
  sweep(exists: (folder: string) => boolean): void {
    for (const folder of namesIn(join(this.#root, "claims"))) {
      const path = join(this.#root, "claims", folder);
      if (exists(folder) || Date.now() - statSync(path).mtimeMs < KEPT_MS) continue;
      rmSync(this.#fileOfEarlierBuild(folder), { force: true });
      rmSync(path, { recursive: true });
    }
  }

  #add(id: string, epoch: number): void {
    const folder = this.#folder(id);
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    closeSync(openSync(join(folder, String(epoch)), "a", 0o600));
    syncFolder(folder);
    syncFolder(join(this.#root, "claims"));
    // A runner of an earlier build may still run beside this one.
    const file = this.#fileOfEarlierBuild(toFolderName(id));
    mkdirSync(join(this.#root, "epochs"), { recursive: true, mode: 0o700 });
    const fresh = `${file}.${randomUUID()}`;
    writeFileSync(fresh, String(epoch), { mode: 0o600 });
    renameSync(fresh, file);
  }

  #newest(id: string): { epoch: number; names: string[] } {
    const names = namesIn(this.#folder(id));
    return { names, epoch: Math.max(this.#ofEarlierBuild(id), ...names.map(Number)) };
  }

  /** Builds before this one kept the epoch in a file. */
  #ofEarlierBuild(id: string): number {
    const text = unlessMissing(() => readFileSync(this.#fileOfEarlierBuild(toFolderName(id)), "utf8"), "0");
    const epoch = Number(text);
    if (Number.isSafeInteger(epoch)) return epoch;
    const file = this.#fileOfEarlierBuild(toFolderName(id));
    const detail = `The epoch of the sandbox ${id} cannot be read from ${file}. Remove that file when no earlier server uses the sandbox.`;
    throw new SluiceError("internal", detail);
  }

  #fileOfEarlierBuild(folder: string): string {
    return join(this.#root, "epochs", folder);
  }

  #folder(id: string): string {
    return join(this.#root, "claims", toFolderName(id));
  }
}

function namesIn(folder: string): string[] {
  return unlessMissing(() => readdirSync(folder), []);
}

/** Any other failure is no answer: a server that was taken over must not be admitted by it. */
function unlessMissing<T>(read: () => T, otherwise: T): T {
  try {
    return read();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return otherwise;
    throw error;
  }
}

function syncFolder(folder: string): void {
  const handle = openSync(folder, "r");
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}
