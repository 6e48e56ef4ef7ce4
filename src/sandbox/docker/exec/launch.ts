import { spawn, type ChildProcess } from "node:child_process";
import { fchmodSync } from "node:fs";
import { constants } from "node:os";

/**
 * The order to this program, which runs as root in a container (`node -e`) and starts an agent as another user. It gives
 * the agent sockets for stdin and stdout: the engine's own streams are pipes, which other processes of the agent's user
 * could open through /proc. The order is the first line of stdin, because variables would be visible and affect Node.
 */
export interface LaunchOrder {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly uid: number;
  readonly gid: number;
}

const FAILED = 125;
const SIGNALLED = 128;
const QUIET_MS = 100;
const NEWLINE = 0x0a;

// A signal to all processes of the container is for the agent to handle.
for (const signal of ["SIGHUP", "SIGINT", "SIGTERM", "SIGQUIT"] as const) process.on(signal, () => {});
await main();

async function main(): Promise<void> {
  const { order, rest } = await readOrder();
  // Lets the agent open its stderr by name, as `> /dev/stderr` does.
  fchmodSync(2, 0o666);
  const [program = "", ...args] = order.argv;
  const child = spawn(program, args, {
    cwd: "/",
    env: { ...process.env, ...order.env },
    uid: order.uid,
    gid: order.gid,
    // Makes the agent the leader of a process group, which can be signalled as a whole.
    detached: true,
    stdio: ["pipe", "pipe", "inherit"],
  });
  child.on("error", (error) => {
    process.stderr.write(`sluice: ${error.message}\n`);
    process.exit(FAILED);
  });
  child.stdin.on("error", () => {});
  child.stdin.write(rest);
  process.stdin.on("error", () => {}).pipe(child.stdin);
  child.stdout.pipe(process.stdout);
  const code = await awaitExit(child);
  // The callback runs when the engine has read the last byte.
  process.stdout.write("", () => process.exit(code));
}

async function readOrder(): Promise<{ order: LaunchOrder; rest: Buffer }> {
  const chunks: Buffer[] = [];
  for (;;) {
    const chunk = process.stdin.read() as Buffer | null;
    if (chunk === null) {
      if (process.stdin.readableEnded) process.exit(FAILED);
      await new Promise((resolve) => process.stdin.once("readable", resolve).once("end", resolve));
      continue;
    }
    chunks.push(chunk);
    if (!chunk.includes(NEWLINE)) continue;
    const bytes = Buffer.concat(chunks);
    const end = bytes.indexOf(NEWLINE);
    const order = JSON.parse(bytes.toString("utf8", 0, end)) as LaunchOrder;
    return { order, rest: bytes.subarray(end + 1) };
  }
}

/** Waits for the exit and the last output. Does not wait for `close`: a background process may hold the output open. */
function awaitExit(child: ChildProcess): Promise<number> {
  return new Promise((resolve) => {
    let hasNewOutput = true;
    child.stdout?.on("data", () => (hasNewOutput = true));
    const toCode = (code: number | null, signal: NodeJS.Signals | null): number =>
      code ?? SIGNALLED + (signal === null ? 0 : constants.signals[signal]);
    child.on("close", (code, signal) => resolve(toCode(code, signal)));
    child.on("exit", (code, signal) => {
      const look = (): void => {
        // Bytes that the engine has not read yet hold back the output after them.
        if (!hasNewOutput && process.stdout.writableLength === 0) return resolve(toCode(code, signal));
        hasNewOutput = false;
        // The event loop reads pending output before the next look.
        setTimeout(() => setImmediate(() => setImmediate(look)), QUIET_MS);
      };
      look();
    });
  });
}
