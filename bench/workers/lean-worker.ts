import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { now } from "../environment.ts";
import type { BenchSession } from "../contenders/contender.ts";
import { LeanConnection, openLeanStream } from "../clients/lean-connection.ts";
import { EventCount } from "../clients/stream-counters.ts";

/** Small turns one after the other, each timed from its request to its first events. */
export interface LeanPrompts {
  readonly kind: "prompts";
  readonly session: Pick<BenchSession, "stream" | "prompt" | "endMark">;
  readonly after: number;
  readonly turns: number;
}

/** Readers of one turn. */
export interface LeanReading {
  readonly kind: "read";
  readonly stream: BenchSession["stream"];
  readonly after: number;
  readonly readers: number;
  readonly marker: string;
  readonly silenceMs: number;
}

export interface LeanTimes {
  /** Milliseconds to the first event of any kind, and to the first that the agent produced. */
  readonly any: readonly number[];
  readonly agent: readonly number[];
}

export interface LeanRead {
  readonly events: number;
  /** By `now`. */
  readonly endedAt: number;
}

export type LeanSaying =
  | { readonly ready: true }
  | { readonly times: LeanTimes }
  | { readonly read: readonly LeanRead[] };

process.on("message", (task: LeanPrompts | LeanReading) => {
  const done = task.kind === "prompts" ? prompts(task).then((times) => tell({ times })) : read(task);
  done.catch((error: unknown) => {
    console.error(error);
    process.exit(1);
  });
});
await rehearse();
tell({ ready: true });

/** Compiles the client's code against a server of its own, so that only the measured server is cold. */
async function rehearse(): Promise<void> {
  const streams = new Set<{ write(text: string): void }>();
  const server = createServer((request, response) => {
    if (request.method === "GET") {
      response.writeHead(200, { "content-type": "text/event-stream" }).write("\n");
      return void streams.add(response);
    }
    request.resume().on("end", () => {
      for (const stream of streams) stream.write("id: 1\ndata: agent end\n\n");
      response.writeHead(200, { "content-length": 2 }).end("{}");
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const prompt = { url, body: "{}", agentMark: "agent" };
  const session = { stream: { url, headers: {} }, prompt, endMark: "end" };
  await prompts({ kind: "prompts", session, after: 0, turns: 300 }, 0);
  server.closeAllConnections();
  server.close();
}

async function prompts({ session, after, turns }: LeanPrompts, restMs = 5): Promise<LeanTimes> {
  const { stream, prompt, endMark } = session;
  const { pathname, search } = new URL(prompt.url);
  let onText: ((text: string) => void) | undefined;
  const reader = await openLeanStream(
    stream.url,
    { ...stream.headers, "last-event-id": String(after) },
    (chunk) => onText?.(chunk.toString("latin1")),
  );
  const writer = await LeanConnection.open(prompt.url);
  const any: number[] = [];
  const agent: number[] = [];
  for (let n = 0; n < turns; n++) {
    let firstAny = 0;
    let firstAgent = 0;
    let seen = "";
    const ended = new Promise<void>((resolve) => {
      onText = (text) => {
        const at = performance.now();
        seen += text;
        if (firstAny === 0 && seen.includes("data: ")) firstAny = at;
        if (firstAgent === 0 && seen.includes(prompt.agentMark)) firstAgent = at;
        if (seen.includes(endMark) && seen.includes("\n\n", seen.lastIndexOf(endMark))) resolve();
      };
    });
    const begun = performance.now();
    const body = prompt.body.replace('"%n"', String(n + 100));
    await Promise.all([writer.post(`${pathname}${search}`, body), ended]);
    any.push(firstAny - begun);
    agent.push(firstAgent - begun);
    onText = undefined;
    // A person does not answer within a millisecond: work after the end of the turn finishes first.
    if (restMs > 0) await new Promise((resolve) => setTimeout(resolve, restMs));
  }
  reader.close();
  writer.close();
  return { any, agent };
}

async function read(task: LeanReading): Promise<void> {
  const opened = await Promise.all(Array.from({ length: task.readers }, () => readOne(task)));
  tell({ ready: true });
  tell({ read: await Promise.all(opened.map(({ ended }) => ended)) });
}

async function readOne({
  stream,
  after,
  marker,
  silenceMs,
}: LeanReading): Promise<{ ended: Promise<LeanRead> }> {
  const counter = new EventCount(marker);
  let endedAt = 0;
  let end: (() => void) | undefined;
  const ended = new Promise<LeanRead>((resolve) => {
    end = () => resolve({ events: counter.events, endedAt });
  });
  const headers = { ...stream.headers, "last-event-id": String(after) };
  const { close } = await openLeanStream(stream.url, headers, (chunk) => {
    const before = counter.events;
    counter.push(chunk);
    if (counter.events > before) endedAt = now();
    if (counter.sawEnd) end?.();
  });
  const silence = setInterval(() => {
    if (endedAt > 0 && now() - endedAt > silenceMs) end?.();
  }, 250);
  void ended.then(() => {
    clearInterval(silence);
    close();
  });
  return { ended };
}

function tell(saying: LeanSaying): void {
  process.send?.(saying);
}
