import type { Readable } from "node:stream";
import { checkAnswer } from "./answers.ts";
import type { RunnerClient } from "./client.ts";

/** The calls of one sandbox, under the epoch of its session. */
export class SandboxCalls {
  readonly client: RunnerClient;
  readonly #path: string;
  readonly #epoch: number | undefined;

  constructor(client: RunnerClient, id: string, epoch: number | undefined) {
    this.client = client;
    this.#path = `/v1/s/${encodeURIComponent(id)}`;
    this.#epoch = epoch;
  }

  /** A call with the same effect when it is made twice: a lost answer is asked for again. */
  async repeat<T>(operation: string, body: object = {}, options: { silenceMs?: number } = {}): Promise<T> {
    const given = { body, epoch: this.#epoch, repeats: true, ...options };
    return checkAnswer(operation, await this.client.call(this.#to(operation), given));
  }

  async once<T>(
    operation: string,
    body: object = {},
    options: { signal?: AbortSignal | undefined; silenceMs?: number } = {},
  ): Promise<T> {
    const given = { body, epoch: this.#epoch, ...options };
    return checkAnswer(operation, await this.client.call(this.#to(operation), given));
  }

  open(operation: string, query: Record<string, string>): Promise<{ size: number; content: Readable }> {
    return this.client.open(this.#to(operation, query), { epoch: this.#epoch });
  }

  /** A body that is small enough for the memory. */
  bytes(operation: string, query: Record<string, string>): Promise<Buffer> {
    return this.client.bytes(this.#to(operation, query), { epoch: this.#epoch });
  }

  put(
    operation: string,
    query: Record<string, string>,
    content: AsyncIterable<Uint8Array> | Uint8Array,
  ): Promise<void> {
    const options = { method: "PUT", content, epoch: this.#epoch, repeats: content instanceof Uint8Array };
    return this.client.call(this.#to(operation, query), options);
  }

  lines(
    operation: string,
    query: Record<string, string | number>,
    signal?: AbortSignal,
  ): AsyncIterable<unknown> {
    return this.client.lines(this.#to(operation, query), { epoch: this.#epoch, signal });
  }

  connect(port: number): ReturnType<RunnerClient["connect"]> {
    return this.client.connect(this.#to(`port/${port}`), { epoch: this.#epoch });
  }

  /** A connection that waits on the machine. */
  accept(connection: string): ReturnType<RunnerClient["connect"]> {
    return this.client.connect(this.#to(`accept/${connection}`), { epoch: this.#epoch });
  }

  #to(operation: string, query: Record<string, string | number> = {}): string {
    const entries = Object.entries(query).map(([name, value]) => [name, String(value)]);
    const search = new URLSearchParams(entries).toString();
    return `${this.#path}/${operation}${search === "" ? "" : `?${search}`}`;
  }
}
