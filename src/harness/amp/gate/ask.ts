import { connect } from "node:net";
import { text } from "node:stream/consumers";

const ALLOW = 0;
const REJECT = 2;

/**
 * Asks the gate for permission, and waits for the answer however long it takes. Without an answer the tool may not
 * run.
 */
export async function askGate(folder: string): Promise<void> {
  const input = parse(await text(process.stdin));
  const question = { tool: process.env["AGENT_TOOL_NAME"] ?? "unknown", input };
  const verdict = await ask(folder, JSON.stringify(question)).catch((error: Error): Verdict => {
    return { allowed: false, message: `nobody can be asked: ${error.message}` };
  });
  if (!verdict.allowed) process.stderr.write(`${verdict.message ?? "The user did not allow this."}\n`);
  process.exitCode = verdict.allowed ? ALLOW : REJECT;
}

async function ask(folder: string, question: string): Promise<Verdict> {
  const socket = withFolder(folder, () => connect(SOCKET));
  socket.write(`${question}\n`);
  const answer = parse(await text(socket)) as Partial<Verdict>;
  if (typeof answer.allowed !== "boolean") throw new Error("the gate is closed");
  return answer as Verdict;
}

function parse(words: string): unknown {
  try {
    return JSON.parse(words);
  } catch {
    return {};
  }
}

/** The gate's socket, relative to its folder: a whole path may be too long for a socket. */
export const SOCKET = "gate.sock";

export function withFolder<T>(folder: string, work: () => T): T {
  const before = process.cwd();
  process.chdir(folder);
  try {
    return work();
  } finally {
    process.chdir(before);
  }
}

/** A call that Amp wants to make. */
export interface Question {
  readonly tool: string;
  readonly input: unknown;
}

export interface Verdict {
  readonly allowed: boolean;
  readonly message?: string;
}
