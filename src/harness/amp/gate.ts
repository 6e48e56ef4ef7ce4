import { type ChildProcess, spawn } from "node:child_process";
import { rmSync } from "node:fs";
import { connect, createServer } from "node:net";
import { constants } from "node:os";
import { delimiter, dirname } from "node:path";
import { text } from "node:stream/consumers";

// `run FOLDER COMMAND…` is the agent's process. Amp starts `ask FOLDER` before a tool runs, by its rule `delegate`:
// exit status 0 allows the call, 2 forbids it, with the reason on stderr.

const NOT_FOUND = 127;

/** Runs Amp, forwards our lines to it, and asks for permission before its tools run. */
function runBehindGate(folder: string, [program = "amp", ...args]: readonly string[]): void {
  const path = [folder, process.env["PATH"], dirname(process.execPath)].filter(Boolean).join(delimiter);
  // In its own process group, so that a signal reaches it once: from us.
  const amp = spawn(program, args, {
    stdio: ["pipe", "pipe", "inherit"],
    detached: true,
    env: { ...process.env, PATH: path },
  });
  const gate = new Gate(folder);
  const input = new Lines((line) => route(line, amp, gate));
  process.stdin.on("data", (bytes: Buffer) => input.add(bytes));
  process.stdin.on("end", () => amp.stdin.end());
  amp.stdin.on("error", () => {});

  // Whole lines only: a request of the gate must not split a line of Amp.
  const output = new Lines((line) => process.stdout.write(line));
  amp.stdout.on("data", (bytes: Buffer) => output.add(bytes));
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => amp.kill(signal));
  amp.on("error", (error: NodeJS.ErrnoException) => {
    const hint = error.code === "ENOENT" ? "install it with `npm install -g @ampcode/cli`" : error.message;
    process.stderr.write(`Amp cannot be started: ${hint}\n`);
    process.exit(NOT_FOUND);
  });
  amp.on("close", (code, signal) => {
    output.end();
    process.exit(code ?? 128 + (signal === null ? 0 : constants.signals[signal]));
  });
}

/** Handles one line of the engine: for the gate, or else for Amp. */
function route(line: Buffer, amp: ChildProcess, gate: Gate): void {
  const command = parse(line);
  if (command["type"] === "interrupt") amp.kill("SIGINT");
  else if (command["type"] === "permission") gate.answer(command);
  else amp.stdin?.write(line);
}

class Gate {
  readonly #waiting = new Map<string, { tool: string; tell: (verdict: Verdict) => void }>();
  readonly #always = new Set<string>();
  #count = 0;

  constructor(folder: string) {
    const server = createServer({ allowHalfOpen: true }, (socket) => {
      const question = new Lines((line) => {
        const tell = (verdict: Verdict): void => void socket.end(JSON.stringify(verdict));
        const id = this.#ask(parse(line) as unknown as Question, tell);
        socket.on("close", () => this.#withdraw(id));
      });
      socket.on("data", (bytes: Buffer) => question.add(bytes));
      socket.on("error", () => {});
    });
    withFolder(folder, () => {
      rmSync(SOCKET, { force: true });
      const before = process.umask(0o077);
      server.listen(SOCKET);
      process.umask(before);
    });
  }

  answer({ id, reply, message }: Readonly<Record<string, unknown>>): void {
    const asked = this.#waiting.get(String(id));
    if (!asked) return;
    this.#waiting.delete(String(id));
    if (reply === "always") this.#always.add(asked.tool);
    asked.tell({ allowed: reply !== "reject", ...(typeof message === "string" ? { message } : {}) });
  }

  #ask({ tool, input }: Question, tell: (verdict: Verdict) => void): string {
    this.#count += 1;
    const id = `ask_${process.pid}_${this.#count}`;
    if (this.#always.has(tool)) {
      tell({ allowed: true });
      return id;
    }
    this.#waiting.set(id, { tool, tell });
    say({ type: "permission.asked", id, tool, input });
    return id;
  }

  /** Amp does not wait for the answer any more. */
  #withdraw(id: string): void {
    if (this.#waiting.delete(id)) say({ type: "permission.withdrawn", id });
  }
}

function say(line: object): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

function parse(line: Buffer): Record<string, unknown> {
  const value = parseJson(line.toString("utf8"));
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

/** Splits bytes into whole lines, each with its newline. */
export class Lines {
  readonly #give: (line: Buffer) => void;
  #rest: Buffer[] = [];

  constructor(give: (line: Buffer) => void) {
    this.#give = give;
  }

  add(bytes: Buffer): void {
    let begin = 0;
    for (let end = bytes.indexOf(10); end >= 0; end = bytes.indexOf(10, begin)) {
      const line = bytes.subarray(begin, end + 1);
      this.#give(this.#rest.length === 0 ? line : Buffer.concat([...this.#rest, line]));
      this.#rest = [];
      begin = end + 1;
    }
    if (begin < bytes.length) this.#rest.push(Buffer.from(bytes.subarray(begin)));
  }

  /** Gives the text after the last newline. */
  end(): void {
    if (this.#rest.length > 0) this.#give(Buffer.concat(this.#rest));
    this.#rest = [];
  }
}

const ALLOW = 0;
const REJECT = 2;

/**
 * Asks the gate for permission, and waits for its answer without a time limit. A tool without an answer may not run.
 */
async function askGate(folder: string): Promise<void> {
  const input = parseJson(await text(process.stdin));
  const question = { tool: process.env["AGENT_TOOL_NAME"] ?? "unknown", input };
  const verdict = await ask(folder, JSON.stringify(question)).catch((error: Error): Verdict => {
    return { allowed: false, message: `the gate cannot be reached: ${error.message}` };
  });
  if (!verdict.allowed) process.stderr.write(`${verdict.message ?? "The user did not allow this."}\n`);
  process.exitCode = verdict.allowed ? ALLOW : REJECT;
}

async function ask(folder: string, question: string): Promise<Verdict> {
  const socket = withFolder(folder, () => connect(SOCKET));
  socket.write(`${question}\n`);
  const answer = parseJson(await text(socket)) as Partial<Verdict>;
  if (typeof answer.allowed !== "boolean") throw new Error("the gate is closed");
  return answer as Verdict;
}

function parseJson(words: string): unknown {
  try {
    return JSON.parse(words);
  } catch {
    return {};
  }
}

/** The gate's socket, relative to its folder: a whole path may be too long for a socket. */
const SOCKET = "gate.sock";

function withFolder<T>(folder: string, work: () => T): T {
  const before = process.cwd();
  process.chdir(folder);
  try {
    return work();
  } finally {
    process.chdir(before);
  }
}

/** A call that Amp wants to make. */
interface Question {
  readonly tool: string;
  readonly input: unknown;
}

interface Verdict {
  readonly allowed: boolean;
  readonly message?: string;
}

const [role, folder = ".", ...command] = process.argv.slice(2);

if (role === "run") runBehindGate(folder, command);
else await askGate(folder);
