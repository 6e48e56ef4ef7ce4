import type { IncomingMessage } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { LineSplitter } from "../../../text/line-splitter.ts";
import { type Api, print } from "./api.ts";

interface EventListener {
  event(data: string): void;
  /** Called when the stream is connected again after a break: the events in between are lost. */
  reconnected(): Promise<void>;
}

/** The server sends a heartbeat every ten seconds. */
const SILENCE_MS = 45_000;
const PAUSE_MS = 250;

/** `GET /event`, connected again after every break. */
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
      await read.catch((error: Error) => process.stderr.write(`opencode-gateway: ${error.message}\n`));
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
      // The stream broke off; it is opened again.
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

interface Message {
  readonly info: {
    readonly id: string;
    readonly time: { readonly created: number; readonly completed?: number };
  };
  readonly parts: readonly unknown[];
}

interface NotedEvent {
  readonly type?: string;
  readonly properties?: {
    readonly info?: {
      readonly id?: string;
      readonly parentID?: string;
      readonly role?: string;
      readonly time?: { readonly completed?: number };
    };
  };
}

const PATIENCE_MS = 30_000;

/** The messages and sessions that were printed, for filling a gap of the event stream. */
export class Seen {
  session = "";
  readonly #since = Date.now();
  readonly #children = new Set<string>();
  readonly #finished = new Set<string>();

  /** Notes an event. Only two kinds are parsed, because most events are deltas. */
  note(data: string): void {
    if (!data.includes('"session.created"') && !data.includes('"message.updated"')) return;
    const { type, properties } = JSON.parse(data) as NotedEvent;
    const info = properties?.info;
    if (info?.id === undefined) return;
    if (type === "session.created" && info.parentID !== undefined) this.#children.add(info.id);
    // A user's message is complete from the start.
    const isWhole = info.role === "user" || info.time?.completed !== undefined;
    if (type === "message.updated" && isWhole) this.#finished.add(info.id);
  }

  get sessions(): string[] {
    return [this.session, ...this.#children];
  }

  /** Whether parts of a message may be missing from the printed events. */
  isOpen({ info }: Message): boolean {
    return info.time.created >= this.#since && !this.#finished.has(info.id);
  }
}

/** Prints the lost events: the present state of each message and part, open requests, and the session's status. */
export async function catchUp(api: Api, seen: Seen): Promise<void> {
  const signal = AbortSignal.timeout(PATIENCE_MS);
  for (const child of await readList(api, `/session/${seen.session}/children`, { signal })) {
    emit("session.created", { info: child });
  }
  for (const session of seen.sessions) {
    for (const message of (await readList(api, `/session/${session}/message`, { signal })) as Message[]) {
      if (!seen.isOpen(message)) continue;
      // The end of a message is printed last: a complete message gets no more parts.
      const { completed: _, ...time } = message.info.time;
      emit("message.updated", { sessionID: session, info: { ...message.info, time } });
      for (const part of message.parts) emit("message.part.updated", { sessionID: session, part });
      seen.note(emit("message.updated", { sessionID: session, info: message.info }));
    }
  }
  for (const ask of await readList(api, "/permission", { signal })) emit("permission.asked", ask);
  for (const ask of await readList(api, "/question", { signal })) emit("question.asked", ask);
  const statuses = (await api.read("/session/status", { signal })) as Record<string, unknown>;
  const status = statuses[seen.session] ?? { type: "idle" };
  emit("session.status", { sessionID: seen.session, status });
}

async function readList(api: Api, path: string, options: { signal: AbortSignal }): Promise<unknown[]> {
  const list = await api.read(path, options);
  return Array.isArray(list) ? list : [];
}

function emit(type: string, properties: unknown): string {
  const line = JSON.stringify({ type, properties });
  print(line);
  return line;
}
