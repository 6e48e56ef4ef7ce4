import { once } from "node:events";
import type { EngineAddress } from "../address.ts";
import { startExec, type ExecSpec } from "./api.ts";
import { FirstLine } from "./firstLine.ts";
import { FrameSplitter } from "./frames.ts";
import { toSignalArgv } from "./shim.ts";

/**
 * Runs something short that says a number, and answers that; undefined where it could not even say so much.
 * Its end is not waited for: an engine may be slow to notice it while others hold on to their output.
 */
export async function askExec(address: EngineAddress, spec: ExecSpec): Promise<number | undefined> {
  const { stream } = await startExec(address, spec);
  let answer: number | undefined;
  const first = new FirstLine((number) => {
    answer = number;
    stream.destroy();
  });
  const frames = new FrameSplitter({ stdout: (chunk) => void first.strip(chunk), stderr: () => {} });
  const closed = once(stream, "close");
  stream.on("error", () => {}).on("data", (chunk: Buffer) => frames.push(chunk));
  stream.end();
  await closed;
  return answer;
}

/** False where there was no room for so much as a `kill`; a group that is gone is none to complain about. */
export async function signalGroup(
  address: EngineAddress,
  place: Omit<ExecSpec, "argv">,
  { pid, signal }: { pid: number; signal: NodeJS.Signals },
): Promise<boolean> {
  const asked = askExec(address, { ...place, argv: toSignalArgv(pid, signal) });
  return (await asked.catch(() => undefined)) !== undefined;
}
