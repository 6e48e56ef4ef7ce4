import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { KeptOutput, MAX_OUTPUT_BYTES, TIMEOUT_MS } from "../../host/processes/exec.ts";
import type { ExecOptions, ExecResult } from "../../port.ts";
import type { EngineAddress } from "../engine.ts";
import { FirstLine, FrameSplitter, readExitCode, startExec, type ExecSpec, type ExecTarget } from "./api.ts";

const KILLED = 137;

/** Runs a shell command in a container to its end; a timeout or an abort ends its whole process group. */
export async function runCommand(
  address: EngineAddress,
  target: ExecTarget,
  command: string,
  options: ExecOptions & { readonly onStuck: () => void },
): Promise<ExecResult> {
  const { input, timeoutMs = TIMEOUT_MS, signal, maxOutputBytes: limit = MAX_OUTPUT_BYTES } = options;
  signal?.throwIfAborted();
  const marker = randomBytes(16).toString("hex");
  const { id, stream } = await startExec(address, { ...target, argv: toCommandArgv(command, marker) });
  let exitCode: number | undefined;
  let endedOutputs = 0;
  // After the end of both outputs, no output of the command is on its way.
  const onEnd = (code: number): void => {
    exitCode = code;
    endedOutputs += 1;
    if (endedOutputs === 2) stream.destroy();
  };
  const stdout = new CommandOutput({ marker, limit, onEnd });
  const stderr = new CommandOutput({ marker, limit, onEnd });
  const kill = createKill(address, target, {
    onKilled: () => {
      exitCode ??= KILLED;
      stream.destroy();
    },
    onStuck: options.onStuck,
  });
  const first = new FirstLine(kill.setPid);
  const frames = new FrameSplitter({
    stdout: (chunk) => stdout.push(first.strip(chunk)),
    stderr: (chunk) => stderr.push(chunk),
  });
  let timedOut = false;
  const timer = setTimeout(() => {
    timedOut = true;
    kill.request();
  }, timeoutMs);
  signal?.addEventListener("abort", kill.request, { once: true });
  if (signal?.aborted) kill.request();
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
    signal?.removeEventListener("abort", kill.request);
    stream.destroy();
  }
}

/** Kills the command's process group when both are known: that it has to be killed, and its pid. */
function createKill(
  address: EngineAddress,
  target: ExecTarget,
  then: { onKilled: () => void; onStuck: () => void },
): { setPid: (pid: number) => void; request: () => void } {
  let pid: number | undefined;
  let isRequested = false;
  const tryKill = (): void => {
    if (pid === undefined || !isRequested) return;
    void signalGroup(address, target, { pid, signal: "SIGKILL" }).then((done) =>
      done ? then.onKilled() : then.onStuck(),
    );
  };
  return {
    setPid: (found) => {
      pid = found;
      tryKill();
    },
    request: () => {
      isRequested = true;
      tryKill();
    },
  };
}

/**
 * Runs a short command whose first line is a number, and returns the number; undefined where no line came. Does not
 * wait for the command's end, which an engine may notice late.
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

/** Sends a signal to a process group. False where the container cannot start `kill`; true for a group that is gone. */
export async function signalGroup(
  address: EngineAddress,
  target: ExecTarget,
  { pid, signal }: { pid: number; signal: NodeJS.Signals },
): Promise<boolean> {
  const asked = askExec(address, { ...target, argv: toSignalArgv(pid, signal) });
  return (await asked.catch(() => undefined)) !== undefined;
}

/**
 * The shim before an agent in the container. Its first line on stdout is its pid, which is also the process group to
 * signal, because the engine starts it as a session leader; 0 means that the program is missing. A path that the image
 * does not have is looked up by its last part. The shim itself enters the folder: only the sandbox's user may.
 */
const FIND = `cd "$1" || exit
shift
p=$1
command -v "$p" > /dev/null 2>&1 || p=\${1##*/}
command -v "$p" > /dev/null 2>&1 || { echo 0; exit 127; }
shift
echo $$
`;

/** The agent replaces the shim, so that the agent itself gets the signals and gives the exit code. */
export function toAgentArgv(argv: readonly string[], cwd: string): string[] {
  return ["/bin/sh", "-c", `${FIND}exec "$p" "$@"`, "sh", cwd, ...argv];
}

/**
 * The shim of a command. It prints the marker and the exit code on both outputs when the command ends, because the
 * engine keeps the streams open for as long as a background process of the command holds them.
 */
function toCommandArgv(command: string, marker: string): string[] {
  // The shim's own stderr goes to /dev/null: its shell would report a command that a signal ended.
  const script = `echo $$
exec 3>&2 2> /dev/null
(exec 2>&3 3>&-; exec /bin/sh -c "$1")
s=$?
echo "$2 $s"
echo "$2 $s" >&3
exit $s`;
  return ["/bin/sh", "-c", script, "sh", command, marker];
}

/** Signals a process group, and prints the result. The pid has to come from a shim. */
function toSignalArgv(pid: number, signal: NodeJS.Signals): string[] {
  return ["/bin/sh", "-c", 'kill -s "$1" -- "-$2"; echo $?', "sh", signal.slice("SIG".length), String(pid)];
}

/** One output of a command: its first bytes up to a limit, until the shim's marker says that the command has ended. */
class CommandOutput {
  readonly #marker: Buffer;
  readonly #kept: KeptOutput;
  readonly #onEnd: (exitCode: number) => void;
  #held = Buffer.alloc(0);
  #isEnded = false;

  constructor(options: { marker: string; limit: number; onEnd: (exitCode: number) => void }) {
    this.#marker = Buffer.from(`${options.marker} `);
    this.#kept = new KeptOutput(options.limit);
    this.#onEnd = options.onEnd;
  }

  push(chunk: Buffer): void {
    if (this.#isEnded) return;
    const bytes = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]);
    const at = bytes.indexOf(this.#marker);
    const line = at === -1 ? null : /^\d+(?=\n)/.exec(bytes.toString("latin1", at + this.#marker.length));
    // The end of the chunk may be the beginning of a marker.
    const safe = at === -1 ? Math.max(0, bytes.length - this.#marker.length) : at;
    this.#kept.push(bytes.subarray(0, safe));
    this.#held = line ? Buffer.alloc(0) : Buffer.from(bytes.subarray(safe));
    if (!line) return;
    this.#isEnded = true;
    this.#onEnd(Number(line[0]));
  }

  /** The kept output, including bytes held back for a marker that never came. */
  text(): string {
    this.#kept.push(this.#held);
    this.#held = Buffer.alloc(0);
    return this.#kept.text();
  }

  note(name: string): string {
    return this.#kept.note(name);
  }
}
