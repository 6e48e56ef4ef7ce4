import { createHmac, timingSafeEqual } from "node:crypto";
import type { ToolRun } from "./port.ts";

/** The token of a run: whoever has the key can make it again, so that nobody has to keep it. */
export function tokenOf(key: Buffer, run: ToolRun): string {
  return macOf(key, run).toString("hex");
}

/** Takes the same time for every wrong token. */
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
