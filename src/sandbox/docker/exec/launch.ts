import { spawn, type ChildProcess } from "node:child_process";
import { fchmodSync } from "node:fs";
import { constants } from "node:os";

/**
 * `node -e THIS`, as root in a container: starts a program as somebody else, whose stdin and stdout are sockets.
 * An engine's streams are pipes, and whoever runs as their owner can open them again through /proc; these are root's.
 * What to start comes as the first line of stdin, because variables must neither be seen nor be heeded here.
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

// What is sent to everybody in the container is for the program to decide.
for (const signal of ["SIGHUP", "SIGINT", "SIGTERM", "SIGQUIT"] as const) process.on(signal, () => {});
await main();

async function main(): Promise<void> {
  const { order, rest } = await readOrder();
  // Anybody inside may append to it by its name, as `> /dev/stderr` does.
  fchmodSync(2, 0o666);
  const [program = "", ...args] = order.argv;
  const child = spawn(program, args, {
    cwd: "/",
    env: { ...process.env, ...order.env },
    uid: order.uid,
    gid: order.gid,
    // The leader of a group, which can be signalled whole.
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
  const code = await ended(child);
  // The engine takes what is written when it can: only behind the last of it is this over.
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

/** Its exit code, once its last words have passed. What it left in the background may hold its output open for ever. */
function ended(child: ChildProcess): Promise<number> {
  return new Promise((resolve) => {
    let hasSpoken = true;
    child.stdout?.on("data", () => (hasSpoken = true));
    const toCode = (code: number | null, signal: NodeJS.Signals | null): number =>
      code ?? SIGNALLED + (signal === null ? 0 : constants.signals[signal]);
    child.on("close", (code, signal) => resolve(toCode(code, signal)));
    child.on("exit", (code, signal) => {
      const look = (): void => {
        // While the engine is slow to take words, no others are read.
        if (!hasSpoken && process.stdout.writableLength === 0) return resolve(toCode(code, signal));
        hasSpoken = false;
        // After the timer comes whatever is there to be read, and only then the verdict.
        setTimeout(() => setImmediate(() => setImmediate(look)), QUIET_MS);
      };
      look();
    });
  });
}
