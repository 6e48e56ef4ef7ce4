import { spawn } from "node:child_process";
import { resolve } from "node:path";
import type { SluiceEvent } from "../../src/contract/index.ts";

const BIN = resolve(import.meta.dirname, "../../bin/sluice");

/** Runs the command in an environment without keys of this machine; its output is read as events. */
export function runCli(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<{ code: number | null; events: SluiceEvent[]; stderr: string }> {
  return new Promise((done) => {
    const clean = Object.entries(process.env).filter(([name]) => !/_API_KEY$|_BASE_URL$|_TOKEN$/.test(name));
    const child = spawn(process.execPath, [BIN, ...args], {
      env: { ...Object.fromEntries(clean), ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    let [stdout, stderr] = ["", ""];
    child.stdout.on("data", (chunk: Buffer) => (stdout += chunk.toString("utf8")));
    child.stderr.on("data", (chunk: Buffer) => (stderr += chunk.toString("utf8")));
    child.on("close", (code) => {
      const lines = stdout.split("\n").filter((line) => line.startsWith("{"));
      done({ code, events: lines.map((line) => JSON.parse(line) as SluiceEvent), stderr });
    });
  });
}
