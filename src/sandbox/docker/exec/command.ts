import { randomBytes } from "node:crypto";
import { once } from "node:events";
import type { ExecOptions, ExecResult } from "../../port.ts";
import type { EngineAddress } from "../address.ts";
import { startExec, type ExecSpec } from "./api.ts";
import { signalGroup } from "./ask.ts";
import { readExitCode } from "./exitCode.ts";
import { FirstLine } from "./firstLine.ts";
import { FrameSplitter } from "./frames.ts";
import { CommandOutput } from "./output.ts";
import { toCommandArgv } from "./shim.ts";

const HOUR_MS = 3_600_000;
const MAX_OUTPUT_BYTES = 16 * 1024 * 1024;
const KILLED = 137;

/** Runs a shell command in a container to its end; a timeout or an abort ends its whole process group. */
export async function runCommand(
  address: EngineAddress,
  place: Omit<ExecSpec, "argv">,
  command: string,
  options: ExecOptions & { readonly onStuck: () => void },
): Promise<ExecResult> {
  const { input, timeoutMs = HOUR_MS, signal, maxOutputBytes: limit = MAX_OUTPUT_BYTES } = options;
  signal?.throwIfAborted();
  const marker = randomBytes(16).toString("hex");
  const { id, stream } = await startExec(address, { ...place, argv: toCommandArgv(command, marker) });
  let exitCode: number | undefined;
  let ended = 0;
  // Heard on both outputs, nothing of the command's can still be on the way.
  const onEnd = (code: number): void => {
    exitCode = code;
    ended += 1;
    if (ended === 2) stream.destroy();
  };
  const stdout = new CommandOutput({ marker, limit, onEnd });
  const stderr = new CommandOutput({ marker, limit, onEnd });
  const kill = createKill(address, place, {
    onKilled: () => {
      exitCode ??= KILLED;
      stream.destroy();
    },
    onStuck: options.onStuck,
  });
  const first = new FirstLine(kill.arm);
  const frames = new FrameSplitter({
    stdout: (chunk) => stdout.push(first.strip(chunk)),
    stderr: (chunk) => stderr.push(chunk),
  });
  let timedOut = false;
  const timer = setTimeout(() => {
    timedOut = true;
    kill.fire();
  }, timeoutMs);
  signal?.addEventListener("abort", kill.fire, { once: true });
  if (signal?.aborted) kill.fire();
  try {
    const closed = once(stream, "close");
    stream.on("error", () => {}).on("data", (chunk: Buffer) => frames.push(chunk));
    stream.end(input ?? "");
    await closed;
    signal?.throwIfAborted();
    exitCode ??= (await readExitCode(address, id)) ?? KILLED;
    const notes = stderr.note("stderr") + stdout.note("stdout");
    return { exitCode, stdout: stdout.text(), stderr: stderr.text() + notes, timedOut };
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", kill.fire);
    stream.destroy();
  }
}

/** A kill that waits for the pid, should it be asked for before the command has said it. */
function createKill(
  address: EngineAddress,
  place: Omit<ExecSpec, "argv">,
  then: { onKilled: () => void; onStuck: () => void },
): { arm: (pid: number) => void; fire: () => void } {
  let pid: number | undefined;
  let isFired = false;
  const kill = (): void => {
    if (pid === undefined || !isFired) return;
    void signalGroup(address, place, { pid, signal: "SIGKILL" }).then((done) =>
      done ? then.onKilled() : then.onStuck(),
    );
  };
  return {
    arm: (found) => {
      pid = found;
      kill();
    },
    fire: () => {
      isFired = true;
      kill();
    },
  };
}
