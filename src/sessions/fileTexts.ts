import type { FileEntry, Sandbox } from "../sandbox/port.ts";

/** What is longer is not looked at: a diff of it helps nobody who watches. */
const MOST_BYTES = 128 * 1024;
/** What is read ahead, and all that is kept: a session must stay cheap, however large its workspace is. */
const AHEAD = { folders: 24, files: 64, fileBytes: 32 * 1024, bytes: 256 * 1024 };
const MOST_CHARS = 512 * 1024;
const MOST_AT_ONCE = 32;

/** Before a change that was seen since the last pause, the text that the change took away. */
interface Versions {
  readonly now: string;
  readonly before?: string;
}

/** The texts of a workspace's files as they were last seen: the small ones, and those that were touched. */
export class FileTexts {
  readonly #sandbox: Sandbox;
  readonly #seen = new Map<string, Versions>();
  #chars = 0;

  constructor(sandbox: Sandbox) {
    this.#sandbox = sandbox;
  }

  /** Reads the small files, the newest first. Only where that is a matter of the host's own disk. */
  async readAhead(): Promise<void> {
    if (!this.#sandbox.folders) return;
    let left = AHEAD.bytes;
    for (const { path, size } of await this.#smallFiles()) {
      left -= size;
      if (left < 0) return;
      await this.see(path);
    }
  }

  /** These files have changed. What they held before stays known until the next pause. */
  async changed(paths: readonly string[]): Promise<void> {
    // What cannot be looked at is not known any more.
    for (const path of paths.slice(MOST_AT_ONCE)) this.#forget(path);
    for (const path of paths.slice(0, MOST_AT_ONCE)) await this.see(path);
  }

  /** A tool is done with it. */
  async settle(path: string): Promise<void> {
    const now = await this.see(path);
    if (now !== undefined) this.#keep(this.#keyOf(path), { now });
  }

  async see(path: string): Promise<string | undefined> {
    const key = this.#keyOf(path);
    const text = await this.#read(key);
    const known = this.#seen.get(key);
    if (text === undefined) this.#forget(key);
    else if (known?.now !== text) this.#keep(key, { now: text, ...(known ? { before: known.now } : {}) });
    return text;
  }

  /** What the file held before it was made to hold `text`; undefined where it is new, or where nobody knows. */
  async before(path: string, text: string): Promise<string | undefined> {
    const earlier = this.#seen.get(this.#keyOf(path));
    const now = await this.see(path);
    // Who has written it already was faster than its own words.
    if (now === undefined || now !== text) return now;
    return [earlier?.now, earlier?.before].find((known) => known !== undefined && known !== text);
  }

  /** From here on, what was seen last is what was before. */
  pause(): void {
    for (const [path, { now, before }] of this.#seen) if (before !== undefined) this.#keep(path, { now });
  }

  #keep(path: string, versions: Versions): void {
    this.#forget(path);
    this.#seen.set(path, versions);
    this.#chars += costOf(versions);
    for (const [oldest] of this.#seen) {
      if (this.#chars <= MOST_CHARS) return;
      this.#forget(oldest);
    }
  }

  #forget(path: string): void {
    const known = this.#seen.get(path);
    if (!known) return;
    this.#seen.delete(path);
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

  /** Undefined where there is no file, or none of text. */
  async #read(path: string): Promise<string | undefined> {
    const { files, paths } = this.#sandbox;
    // An agent's own home holds what is nobody's business.
    if (!path.startsWith(`${paths.workspace}/`) && !path.startsWith("/workspace/")) return undefined;
    try {
      const { entryType, size } = await files.stat(path);
      if (entryType !== "file" || size > MOST_BYTES) return undefined;
      const bytes = await files.read(path);
      return bytes.includes(0) ? undefined : new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    } catch {
      return undefined;
    }
  }
}

function costOf({ now, before = "" }: Versions): number {
  return now.length + before.length + 200;
}
