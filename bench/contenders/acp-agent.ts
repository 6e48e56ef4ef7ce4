import { createInterface } from "node:readline";

/**
 * An ACP agent without a model, for the peers. A prompt of "flood N BYTES" gets that many text chunks, written in large
 * pieces as the scripted agent writes them. Any other prompt gets three.
 */
const PIECE = 64 * 1024;

interface Request {
  readonly id?: number | string;
  readonly method?: string;
  readonly params?: { readonly sessionId?: string; readonly prompt?: readonly { readonly text?: string }[] };
}

let sessions = 0;

createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line) as Request;
  if (method === "session/prompt")
    return void speak(params).then(() => answer(id, { stopReason: "end_turn" }));
  if (id === undefined) return;
  if (method === "initialize") return answer(id, { protocolVersion: 1, agentCapabilities: {} });
  answer(id, method === "session/new" ? { sessionId: `session-${++sessions}` } : {});
});

async function speak(params: Request["params"]): Promise<void> {
  const [, count = "3", bytes = "4"] = /^flood (\d+) (\d+)/.exec(params?.prompt?.[0]?.text ?? "") ?? [];
  const head = `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":${JSON.stringify(params?.sessionId)},"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"`;
  for (let done = 0; done < Number(count);) {
    let lines = "";
    for (; done < Number(count) && lines.length < PIECE; done++) {
      lines += `${head}${`${done} `.padEnd(Number(bytes), "~").slice(0, Number(bytes))}"}}}}\n`;
    }
    await write(lines);
  }
}

function answer(id: Request["id"], result: unknown): void {
  void write(`${JSON.stringify({ jsonrpc: "2.0", id, result })}\n`);
}

function write(text: string): Promise<void> {
  return new Promise((resolve) => void process.stdout.write(text, () => resolve()));
}
