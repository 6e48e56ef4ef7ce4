import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { SOCKET, type Verdict, withFolder } from "./socket.ts";

const ALLOW = 0;
const REJECT = 2;

/** Asks the gate whether the tool may run, and waits however long the answer takes. Without an answer it may not. */
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
