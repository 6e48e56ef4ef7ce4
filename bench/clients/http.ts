import { Agent, request } from "node:http";

const agent = new Agent({ keepAlive: true, maxSockets: 16 });

export interface Answer {
  readonly status: number;
  readonly text: string;
}

/** One request over a keep-alive connection. A status from 300 on is an error with the response text. */
export function call(
  method: "GET" | "POST",
  url: string,
  body?: unknown,
  more: Readonly<Record<string, string>> = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const headers =
      text === undefined
        ? more
        : { ...more, "content-type": "application/json", "content-length": Buffer.byteLength(text) };
    const sent = request(url, { method, agent, headers }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("error", reject);
      response.on("end", () => {
        const answer = { status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString() };
        if (answer.status < 300) resolve(answer);
        else reject(new Error(`${method} ${url}: ${answer.status} ${answer.text.slice(0, 300)}`));
      });
    });
    sent.on("error", reject);
    sent.end(text);
  });
}

/** Runs the tasks, `width` at a time. */
export async function inParallel(
  count: number,
  width: number,
  task: (index: number) => Promise<unknown>,
): Promise<void> {
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < count) await task(next++);
  };
  await Promise.all(Array.from({ length: width }, lane));
}

export function closeConnections(): void {
  agent.destroy();
}
