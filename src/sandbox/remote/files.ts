import type { FileContent, FileEntry, OpenedFile, SandboxFiles } from "../port.ts";
import type { SandboxCalls } from "./calls.ts";

/** Files of a sandbox on another machine. The runner keeps every path inside. */
export class RemoteFiles implements SandboxFiles {
  readonly #calls: SandboxCalls;

  constructor(calls: SandboxCalls) {
    this.#calls = calls;
  }

  async read(path: string): Promise<Uint8Array> {
    const { content } = await this.open(path);
    const chunks: Buffer[] = [];
    for await (const chunk of content as AsyncIterable<Buffer>) chunks.push(chunk);
    return Buffer.concat(chunks);
  }

  open(path: string): Promise<OpenedFile> {
    return this.#calls.open("file", { path });
  }

  async write(path: string, content: FileContent, { mode }: { mode?: number } = {}): Promise<void> {
    const bytes = typeof content === "string" ? Buffer.from(content) : content;
    await this.#calls.put("file", { path, ...(mode === undefined ? {} : { mode: String(mode) }) }, bytes);
  }

  symlink(path: string, target: string): Promise<void> {
    return this.#calls.once("symlink", { path, target });
  }

  list(path: string): Promise<FileEntry[]> {
    return this.#calls.repeat("list", { path });
  }

  stat(path: string): Promise<FileEntry> {
    return this.#calls.repeat("stat", { path });
  }

  mkdir(path: string): Promise<void> {
    return this.#calls.repeat("mkdir", { path });
  }

  move(from: string, to: string, options: { overwrite?: boolean } = {}): Promise<void> {
    return this.#calls.once("move", { from, to, ...options });
  }

  remove(path: string, options: { recursive?: boolean } = {}): Promise<void> {
    return this.#calls.once("remove-file", { path, ...options });
  }
}
