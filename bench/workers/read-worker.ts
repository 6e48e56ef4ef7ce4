import { Agent, get } from "node:http";
import { now } from "../environment.ts";
import { FrameCounter } from "../clients/stream-counters.ts";
import { SequenceCounter } from "../clients/stream-counters.ts";

/** The stream, and the mark of its end. */
export interface ReadTask {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly after: number;
  /** The unit of the count: a sequence number, or a frame. */
  readonly counts?: "sequences" | "frames";
  /** A line with its newlines. Frames with it are counted apart. */
  readonly tally?: string;
  readonly readers: number;
  /** A text that only the last event has. */
  readonly marker?: string;
  /** The last sequence. */
  readonly until?: number;
  /** The end of a stream counts as lost after this silence. */
  readonly silenceMs: number;
}

export interface ReadResult {
  readonly events: number;
  readonly repeated: number;
  readonly tallied: number;
  readonly bytes: number;
  /** By `now`. */
  readonly startedAt: number;
  readonly endedAt: number;
  readonly sawEnd: boolean;
}

export type WorkerSaying = { readonly connected: true } | { readonly results: readonly ReadResult[] };

// One connection per reader, without a limit.
const agent = new Agent({ keepAlive: false, maxSockets: Number.POSITIVE_INFINITY });

process.on("message", (task: ReadTask) => {
  let open = 0;
  const onOpen = (): void => {
    open += 1;
    if (open === task.readers) tell({ connected: true });
  };
  const streams = Array.from({ length: task.readers }, () => readOne(task, onOpen));
  void Promise.all(streams).then((results) => tell({ results }));
});

function readOne(task: ReadTask, onOpen: () => void): Promise<ReadResult> {
  return new Promise((resolve, reject) => {
    const counter = task.counts === "frames" ? new FrameCounter() : new SequenceCounter(task.after);
    const tally = task.tally === undefined ? undefined : new FrameCounter(task.tally);
    const marker = task.marker === undefined ? undefined : Buffer.from(task.marker);
    const startedAt = now();
    let endedAt = startedAt;
    const request = get(task.url, { agent, headers: task.headers }, (response) => {
      if (response.statusCode !== 200) return reject(new Error(`HTTP ${response.statusCode} of ${task.url}`));
      onOpen();
      const silence = setInterval(() => {
        if (endedAt > startedAt && now() - endedAt > task.silenceMs) end(false);
      }, 250);
      const end = (sawEnd: boolean): void => {
        clearInterval(silence);
        request.destroy();
        const { events, repeated, bytes } = counter;
        resolve({ events, repeated, tallied: tally?.events ?? 0, bytes, startedAt, endedAt, sawEnd });
      };
      response.on("data", (chunk: Buffer) => {
        const before = counter.events;
        const bytes = counter.push(chunk);
        tally?.push(chunk);
        if (counter.events > before) endedAt = now();
        const isLast = marker?.length ? bytes.includes(marker) : counter.last >= (task.until ?? Infinity);
        if (isLast) end(true);
      });
      response.on("error", () => end(false));
      response.on("end", () => end(false));
    });
    request.on("error", reject);
  });
}

function tell(saying: WorkerSaying): void {
  process.send?.(saying);
}
