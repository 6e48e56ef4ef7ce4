import type { IncomingMessage } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { LineSplitter } from "../../scripted/agent/lines.ts";
import type { Api } from "./api.ts";

export interface EventListener {
  event(data: string): void;
  /** The stream was lost and is there again: what came between must be read some other way. */
  reconnected(): Promise<void>;
}

/** The server sends a heartbeat every ten seconds. */
const SILENCE_MS = 45_000;
const PAUSE_MS = 250;

/** `GET /event`, for ever: connected again whenever it breaks off. */
export class EventStream {
  readonly #api: Api;
  readonly #listener: EventListener;

  constructor(api: Api, listener: EventListener) {
    this.#api = api;
    this.#listener = listener;
  }

  async connect(): Promise<void> {
    const response = await this.#open();
    void this.#follow(response);
  }

  async #follow(first: IncomingMessage): Promise<never> {
    for (let response = first; ;) {
      await this.#read(response);
      response = await this.#reopen();
      const read = this.#listener.reconnected();
      await read.catch((error: Error) => process.stderr.write(`opencode-bridge: ${error.message}\n`));
    }
  }

  async #read(response: IncomingMessage): Promise<void> {
    const data: string[] = [];
    const lines = new LineSplitter((line) => {
      const text = line.endsWith("\r") ? line.slice(0, -1) : line;
      if (text.startsWith("data:")) return void data.push(text.slice(text[5] === " " ? 6 : 5));
      if (text === "" && data.length > 0) this.#listener.event(data.splice(0).join("\n"));
    });
    response.setTimeout(SILENCE_MS, () => response.destroy());
    try {
      for await (const chunk of response) lines.push(chunk as Buffer);
    } catch {
      // Broken off: it is opened again.
    }
  }

  async #open(): Promise<IncomingMessage> {
    const response = await this.#api.open("GET", "/event");
    if (response.statusCode === 200) return response;
    response.resume();
    throw new Error(`GET /event was answered with ${response.statusCode}`);
  }

  async #reopen(): Promise<IncomingMessage> {
    for (;;) {
      await sleep(PAUSE_MS);
      const response = await this.#open().catch(() => undefined);
      if (response) return response;
    }
  }
}
