import { createHmac, timingSafeEqual } from "node:crypto";
import type { ToolRun } from "./port.ts";

/** The token of a run. It is derived from the key, so it is not stored. */
export function tokenOf(key: Buffer, run: ToolRun): string {
  return macOf(key, run).toString("hex");
}

/** Compares in constant time, so that the time reveals nothing about the token. */
export function isTokenOf(key: Buffer, run: ToolRun, given: string): boolean {
  const bytes = Buffer.from(given, "hex");
  const mac = macOf(key, run);
  return timingSafeEqual(mac, bytes.length === mac.length ? bytes : Buffer.alloc(mac.length));
}

function macOf(key: Buffer, { session, createdAt, process }: ToolRun): Buffer {
  return createHmac("sha256", key)
    .update(JSON.stringify(["tools", session, createdAt, process]))
    .digest();
}

export function toRunPath({ session, createdAt, process }: ToolRun): string {
  return `/runs/${encodeURIComponent(session)}/${createdAt}/${process}`;
}

interface RunPath {
  readonly run: ToolRun;
  /** `tools`, `calls/{id}`, or any other path. */
  readonly rest: readonly string[];
}

export function parseRunPath(path: string): RunPath | undefined {
  const [, runs, session = "", createdAt = "", process = "", ...rest] = path.split("/");
  if (runs !== "runs" || !/^\d{1,15}$/.test(createdAt) || !/^\d{1,9}$/.test(process)) return undefined;
  try {
    const run = {
      session: decodeURIComponent(session),
      createdAt: Number(createdAt),
      process: Number(process),
    };
    return { run, rest };
  } catch {
    return undefined;
  }
}
