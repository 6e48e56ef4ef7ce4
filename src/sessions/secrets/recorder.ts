import { closeSync, openSync, readSync } from "node:fs";
import { join } from "node:path";
import type { Launch, SpoolLine } from "../../contract/index.ts";
import type { RecordingEntry } from "../../harness/recording.ts";
import { hostFolderOf, type Spool } from "../../spool/index.ts";
import { type Identity, readIdentity, createScrub, type Scrub } from "./scrub.ts";
import { isSecretName, type Redact } from "./redact.ts";

/** Sees every line of a harness process, in both directions and in the order of decoding. */
export interface Recorder {
  /** Called at the start of a process. The returned function gets each line of it. */
  begin(start: RecordedStart): Witness | undefined;
}

export type Witness = (line: SpoolLine) => void;

export interface RecordedStart {
  readonly ordinal: number;
  readonly harness: string;
  readonly launch: Launch;
  readonly workspace: string;
  readonly home: string;
  readonly spool: Spool;
  readonly redact: Redact;
}

export interface RecorderOptions {
  readonly write: (entry: RecordingEntry) => void;
  /** The version of the recorded CLI. */
  readonly version?: string | undefined;
  readonly identity?: Identity;
}

/** Records the first process of a session as a fixture without private data. */
export function createRecorder(options: RecorderOptions): Recorder & { scrub: Scrub } {
  let scrub: Scrub | undefined;
  return {
    scrub: (text) => scrub?.(text) ?? text,
    begin(start) {
      // Only the spool of a process on this machine has a folder to read.
      const folder = hostFolderOf(start.spool);
      if (start.ordinal !== 1 || folder === undefined) return undefined;
      const identity = options.identity ?? readIdentity();
      const places = [
        [start.workspace, "/home/user/workspace"],
        [start.home, "/home/user"],
      ] as const;
      scrub = createScrub({ redact: start.redact, identity, places });
      return new ProcessRecording(start, folder, { ...options, scrub }).witness;
    },
  };
}

class ProcessRecording {
  readonly #spool: string;
  readonly #write: (entry: RecordingEntry) => void;
  readonly #scrub: Scrub;
  readonly #startedAt = Date.now();
  #errOffset = 0;

  constructor(start: RecordedStart, folder: string, options: RecorderOptions & { scrub: Scrub }) {
    this.#spool = folder;
    this.#write = options.write;
    this.#scrub = options.scrub;
    this.#put("meta", toMeta(start, options.version));
  }

  witness = (line: SpoolLine): void => {
    this.#catchUpWithStderr(line.dir === "exit");
    if (line.dir === "exit") return this.#put("exit", toExit(line));
    if (line.damage?.reason !== "utf8") return this.#put(line.dir, line.text);
    this.#putBytes(line.dir, readBytes(join(this.#spool, "out"), line.at, line.damage.bytes));
  };

  /** Stderr has no follower, so its new lines come before the next line of the other streams. */
  #catchUpWithStderr(isLast: boolean): void {
    const bytes = readBytes(join(this.#spool, "err"), this.#errOffset, Number.MAX_SAFE_INTEGER);
    const end = isLast ? bytes.length : bytes.lastIndexOf(10) + 1;
    if (end === 0) return;
    this.#errOffset += end;
    const lines = bytes.subarray(0, end).toString("latin1").replace(/\n$/, "").split("\n");
    for (const line of lines) this.#putBytes("err", Buffer.from(line, "latin1"));
  }

  /** Bytes that are not UTF-8 are kept as bytes, scrubbed. */
  #putBytes(dir: SpoolLine["dir"], bytes: Buffer): void {
    const text = bytes.toString("utf8");
    if (Buffer.from(text).equals(bytes)) return this.#put(dir, text);
    const clean = Buffer.from(this.#scrub(bytes.toString("latin1")), "latin1");
    this.#write({ t: this.#now(), dir, b64: clean.toString("base64") });
  }

  #put(dir: SpoolLine["dir"], text: string): void {
    this.#write({ t: this.#now(), dir, raw: this.#scrub(text) });
  }

  #now(): number {
    return Date.now() - this.#startedAt;
  }
}

function toMeta({ harness, launch, workspace }: RecordedStart, version: string | undefined): string {
  const env = Object.entries(launch.env).map(([name, value]) => [
    name,
    isSecretName(name) ? "<secret>" : value,
  ]);
  return JSON.stringify({
    argv: launch.argv,
    cwd: workspace,
    env: Object.fromEntries(env) as Record<string, string>,
    harness,
    ...(version === undefined ? {} : { version }),
  });
}

function toExit({ exit }: SpoolLine): string {
  // Any text that is not JSON is read as a lost process.
  if (!exit || exit.lost === true) return "lost";
  return JSON.stringify({ code: exit.code ?? null, signal: exit.signal ?? null });
}

function readBytes(file: string, at: number, most: number): Buffer {
  const chunks: Buffer[] = [];
  const descriptor = openSync(file, "r");
  try {
    for (let left = most, offset = at; left > 0;) {
      const chunk = Buffer.alloc(Math.min(left, 64 * 1024));
      const read = readSync(descriptor, chunk, 0, chunk.length, offset);
      if (read === 0) break;
      chunks.push(chunk.subarray(0, read));
      offset += read;
      left -= read;
    }
  } finally {
    closeSync(descriptor);
  }
  return Buffer.concat(chunks);
}
