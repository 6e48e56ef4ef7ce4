import { spawn } from "node:child_process";
import { once } from "node:events";
import { sha256 } from "../../../src/sandbox/checkpoint/storage/pack.ts";

export function start(script: string, ...args: string[]): { stop(): Promise<void> } {
  const child = spawn(process.execPath, ["-e", script, ...args], { stdio: "ignore" });
  const closed = once(child, "close");
  return {
    stop: async () => {
      child.kill("SIGKILL");
      await closed;
    },
  };
}

export function fill(letter: string): Buffer {
  return Buffer.alloc(2_500_000, letter);
}

export function file(path: string): unknown[] {
  return ["f", path, 0o644, 1, 1, sha256("x")];
}

export function folder(path: string): unknown[] {
  return ["d", path, 0o755];
}
