import { Agent, get, request } from "node:http";
import type { BenchSession } from "../contenders/contender.ts";

/** Small turns one after the other, each timed from its request to its first events. */
export interface PromptTask {
  readonly session: Pick<BenchSession, "stream" | "prompt" | "endMark">;
  readonly after: number;
  readonly warmUp: number;
  readonly turns: number;
}

export interface PromptResult {
  /** Milliseconds to the first event of any kind, and to the first that the agent produced. */
  readonly any: readonly number[];
  readonly agent: readonly number[];
}

const connections = new Agent({ keepAlive: true });

process.once("message", (task: PromptTask) => {
  void measure(task).then((result) => process.send?.(result, () => process.exit(0)));
});

async function measure({ session, after, warmUp, turns }: PromptTask): Promise<PromptResult> {
  const { url, headers } = session.stream;
  let onText: ((text: string) => void) | undefined;
  const stream = get(url, { headers: { ...headers, "last-event-id": String(after) } }, (response) => {
    response.setEncoding("latin1").on("data", (text: string) => onText?.(text));
  });
  await new Promise((resolve, reject) => stream.once("response", resolve).once("error", reject));
  const any: number[] = [];
  const agent: number[] = [];
  for (let n = 0; n < warmUp + turns; n++) {
    const begun = performance.now();
    let firstAny = 0;
    let firstAgent = 0;
    let seen = "";
    const ended = new Promise<void>((resolve) => {
      onText = (text) => {
        const now = performance.now();
        seen += text;
        if (firstAny === 0 && seen.includes("data: ")) firstAny = now;
        if (firstAgent === 0 && seen.includes(session.prompt.agentMark)) firstAgent = now;
        if (seen.includes(session.endMark) && seen.endsWith("\n\n")) resolve();
      };
    });
    await Promise.all([
      post(session.prompt.url, session.prompt.body.replace('"%n"', String(n + 100))),
      ended,
    ]);
    onText = undefined;
    // A person does not answer within a millisecond: work after the end of the turn finishes first.
    await new Promise((resolve) => setTimeout(resolve, 5));
    if (n < warmUp) continue;
    any.push(firstAny - begun);
    agent.push(firstAgent - begun);
  }
  stream.destroy();
  return { any, agent };
}

function post(url: string, body: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
    const sent = request(url, { method: "POST", agent: connections, headers }, (response) => {
      response.resume().on("end", resolve).on("error", reject);
    });
    sent.on("error", reject);
    sent.end(body);
  });
}
