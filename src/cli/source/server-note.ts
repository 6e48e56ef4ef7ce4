import { readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { isRecord, parseJsonOr } from "../../contract/index.ts";

/** The address of a data folder's running server, so that commands find it on any port. */
interface ServerNote {
  readonly url: string;
  readonly pid: number;
  readonly host: string;
}

/** Notes the server of this process. Returns a function that removes the note, unless a later server has replaced it. */
export function noteServer(dataDir: string, url: string): () => void {
  const file = fileOf(dataDir);
  const note: ServerNote = { url: toReachable(url), pid: process.pid, host: hostname() };
  const unfinished = `${file}.${process.pid}`;
  try {
    writeFileSync(unfinished, `${JSON.stringify(note)}\n`, { mode: 0o600 });
    renameSync(unfinished, file);
  } catch {
    // On a full disk only the note is missing: commands then need --server URL.
    rmSync(unfinished, { force: true });
  }
  return () => {
    if (readNote(dataDir)?.pid === process.pid) rmSync(file, { force: true });
  };
}

/** The URL of the folder's server; undefined without a note, or if its process has gone. */
export function readServer(dataDir: string): string | undefined {
  const note = readNote(dataDir);
  if (!note) return undefined;
  return note.host === hostname() && !isAlive(note.pid) ? undefined : note.url;
}

function readNote(dataDir: string): ServerNote | undefined {
  try {
    const note = parseJsonOr(readFileSync(fileOf(dataDir), "utf8"), undefined);
    if (!isRecord(note)) return undefined;
    const { url, pid, host } = note;
    if (typeof url !== "string" || !URL.canParse(url) || !Number.isSafeInteger(pid)) return undefined;
    return { url, pid: Number(pid), host: String(host) };
  } catch {
    return undefined;
  }
}

function fileOf(dataDir: string): string {
  return join(dataDir, "server.json");
}

/** A server on all addresses is reached on loopback. */
export function toReachable(url: string): string {
  return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:");
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
