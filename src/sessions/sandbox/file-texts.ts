import type { FileEntry, Sandbox } from "../../sandbox/port.ts";

/** Longer files are not read: nobody reads such a diff. */
const MOST_BYTES = 128 * 1024;
/** The bounds of reading ahead and of the memory: a session stays cheap, however large its workspace is. */
const AHEAD = { folders: 24, files: 64, fileBytes: 32 * 1024, bytes: 256 * 1024 };
const MOST_CHARS = 512 * 1024;
const MOST_AT_ONCE = 32;
const MOST_TOUCHED = 256;
/** File times come from a coarse clock of the kernel, which may be this far behind. */
const TICK_MS = 20;

/**
 * The text of each file before the agent's newest output: of small files, and of changed ones. An agent may write a
 * file before its output is read. So a file that changes in a turn is read only when the turn is over. Until then its
 * known text is the earlier one, or the one that a tool reported.
 */
export class FileTexts {
  readonly #sandbox: Sandbox;
  readonly #known = new Map<string, string>();
  readonly #touched = new Set<string>();
  #chars = 0;

  constructor(sandbox: Sandbox) {
    this.#sandbox = sandbox;
  }

  /**
   * Reads small files that have not changed since this time, the newest first. Only for files on the host's own disk.
   */
  async readAhead(since: number): Promise<void> {
    if (!this.#sandbox.files.locate) return;
    let left = AHEAD.bytes;
    for (const { path, size, modified } of await this.#smallFiles()) {
      if (!isOlder(modified, since)) continue;
      left -= size;
      if (left < 0) return;
      await this.#learn(path);
    }
  }

  /** Notes changed files. Those of a turn are read at its end, others at once. */
  async changed(paths: readonly string[], { inTurn }: { inTurn: boolean }): Promise<void> {
    // Files beyond the limit are not read again, so their texts are unknown.
    for (const path of paths.slice(MOST_AT_ONCE)) this.#forget(path);
    for (const path of paths.slice(0, MOST_AT_ONCE)) {
      if (inTurn) this.#touch(path);
      else await this.#learn(path);
    }
  }

  /** Notes the write of a tool. Without `text` the file's text is unknown. */
  wrote(path: string, text?: string): void {
    const key = this.#keyOf(path);
    if (text === undefined) this.#forget(key);
    else this.#keep(key, text);
    this.#touch(key);
  }

  /** The text of the file before `text` was written; undefined for a new file, or an unknown one. */
  async before(path: string, text: string, since: number): Promise<string | undefined> {
    const key = this.#keyOf(path);
    const found = await this.#read(key);
    const before = found && isOlder(found.modified, since) ? found.text : this.#known.get(key);
    return before === text ? undefined : before;
  }

  /** Reads the changed files after the end of a turn, when nothing writes any more. */
  async settle(): Promise<void> {
    const touched = [...this.#touched];
    this.#touched.clear();
    for (const path of touched) await this.#learn(path);
  }

  async #learn(path: string): Promise<void> {
    const found = await this.#read(path);
    if (found) this.#keep(path, found.text);
    else this.#forget(path);
  }

  #touch(path: string): void {
    if (this.#touched.size < MOST_TOUCHED) this.#touched.add(path);
    else this.#forget(path);
  }

  #keep(path: string, text: string): void {
    this.#forget(path);
    this.#known.set(path, text);
    this.#chars += costOf(text);
    for (const [oldest] of this.#known) {
      if (this.#chars <= MOST_CHARS) return;
      this.#forget(oldest);
    }
  }

  #forget(path: string): void {
    const known = this.#known.get(path);
    if (known === undefined) return;
    this.#known.delete(path);
    this.#chars -= costOf(known);
  }

  #keyOf(path: string): string {
    return path.startsWith("/") ? path : `${this.#sandbox.paths.workspace}/${path.replace(/^\.\//, "")}`;
  }

  async #smallFiles(): Promise<FileEntry[]> {
    const { files, paths } = this.#sandbox;
    const found: FileEntry[] = [];
    const folders = [paths.workspace];
    for (let at = 0; at < Math.min(folders.length, AHEAD.folders); at += 1) {
      const entries = await files.list(folders[at] ?? "").catch(() => []);
      for (const entry of entries) {
        if (entry.name.startsWith(".") || entry.name === "node_modules") continue;
        if (entry.entryType === "directory") folders.push(entry.path);
        if (entry.entryType === "file" && entry.size <= AHEAD.fileBytes) found.push(entry);
      }
    }
    return found.sort((a, b) => b.modified - a.modified).slice(0, AHEAD.files);
  }

  /** Undefined for a missing file, and for one that is not text. */
  async #read(path: string): Promise<{ text: string; modified: number } | undefined> {
    const { files, paths } = this.#sandbox;
    // The agent's home is private.
    if (!path.startsWith(`${paths.workspace}/`) && !path.startsWith("/workspace/")) return undefined;
    try {
      const { entryType, size, modified } = await files.stat(path);
      if (entryType !== "file" || size > MOST_BYTES) return undefined;
      const bytes = await files.read(path);
      if (bytes.includes(0)) return undefined;
      return { text: new TextDecoder("utf-8", { fatal: true }).decode(bytes), modified };
    } catch {
      return undefined;
    }
  }
}

function isOlder(modified: number, since: number): boolean {
  return modified < since - TICK_MS;
}

function costOf(text: string): number {
  return text.length + 200;
}
