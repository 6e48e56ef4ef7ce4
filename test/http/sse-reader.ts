import { get, type IncomingMessage } from "node:http";

export interface SseFrame {
  readonly id: string | undefined;
  readonly data: string;
}

/** A plain client on a real socket that can be paused, cut and inspected. */
export class SseReader {
  readonly response: IncomingMessage;
  /** The bytes of whole frames and comments. */
  text = "";
  /** Resolves when the server ended the stream; rejects when it was cut. */
  readonly finished: Promise<void>;
  #waiting: { until: (text: string) => boolean; resolve: () => void }[] = [];

  static open(url: string, headers: Record<string, string> = {}): Promise<SseReader> {
    return new Promise((resolve, reject) => {
      get(url, { agent: false, headers }, (response) => resolve(new SseReader(response))).on("error", reject);
    });
  }

  constructor(response: IncomingMessage) {
    this.response = response;
    response.setEncoding("utf8");
    this.finished = new Promise((resolve, reject) => {
      response.on("end", resolve);
      response.on("error", reject);
    });
    this.finished.catch(() => {});
    response.on("data", (text: string) => {
      this.text += text;
      for (const { until, resolve } of this.#waiting) if (until(this.text)) resolve();
    });
  }

  /** Waits until the text so far satisfies. */
  async until(satisfies: (text: string) => boolean): Promise<void> {
    if (satisfies(this.text)) return;
    await new Promise<void>((resolve) => this.#waiting.push({ until: satisfies, resolve }));
  }

  async untilId(id: number): Promise<void> {
    await this.until((text) => text.includes(`\nid: ${id}\n`));
    await this.until((text) => text.endsWith("\n\n"));
  }

  cut(): void {
    this.response.destroy();
  }

  get frames(): SseFrame[] {
    return toFrames(this.text);
  }

  get ids(): number[] {
    return this.frames.map((frame) => Number(frame.id));
  }
}

/** Whole frames only; a truncated frame does not count. */
export function toFrames(text: string): SseFrame[] {
  const blocks = text.slice(0, text.lastIndexOf("\n\n") + 1).split("\n\n");
  const frames: SseFrame[] = [];
  for (const block of blocks) {
    const lines = block.split("\n");
    const data = lines.filter((line) => line.startsWith("data: ")).map((line) => line.slice(6));
    const id = lines.find((line) => line.startsWith("id: "))?.slice(4);
    if (data.length > 0) frames.push({ id, data: data.join("\n") });
  }
  return frames;
}

export function range(from: number, to: number): number[] {
  return Array.from({ length: to - from + 1 }, (_, index) => from + index);
}
