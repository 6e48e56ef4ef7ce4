import type { AgentCommand } from "../protocol.ts";
import { orHalted } from "./halted.ts";

type Reply = Extract<AgentCommand, { type: "permission" | "answer" | "tool_result" }>;
type ReplyOf<T extends Reply["type"]> = Extract<Reply, { type: T }>;

/** Who waits for which answer, and for a retry. */
export class Answers {
  readonly #waiting = new Map<string, (reply: Reply) => void>();
  readonly #retries = new Set<{ wake?: () => void }>();

  async wait<T extends Reply["type"]>(type: T, id: string, signal: AbortSignal): Promise<ReplyOf<T>> {
    const key = keyOf(type, id);
    const reply = new Promise<Reply>((resolve) => this.#waiting.set(key, resolve));
    try {
      return (await orHalted(signal, reply)) as ReplyOf<T>;
    } finally {
      this.#waiting.delete(key);
    }
  }

  /** False when nobody waits for it. */
  deliver(reply: Reply): boolean {
    const resolve = this.#waiting.get(keyOf(reply.type, reply.id));
    resolve?.(reply);
    return resolve !== undefined;
  }

  async waitForRetry(signal: AbortSignal): Promise<void> {
    const waiter: { wake?: () => void } = {};
    const retried = new Promise<void>((resolve) => {
      waiter.wake = resolve;
    });
    this.#retries.add(waiter);
    try {
      await orHalted(signal, retried);
    } finally {
      this.#retries.delete(waiter);
    }
  }

  get waitsForRetry(): boolean {
    return this.#retries.size > 0;
  }

  get waits(): boolean {
    return this.#waiting.size > 0 || this.waitsForRetry;
  }

  retry(): boolean {
    const waiting = this.#retries.size > 0;
    for (const waiter of this.#retries) waiter.wake?.();
    return waiting;
  }
}

function keyOf(type: Reply["type"], id: string): string {
  return `${type} ${id}`;
}
