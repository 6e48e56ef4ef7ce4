import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { freePort } from "./server.ts";

/**
 * What a wire does with the bytes of its connections:
 * `pass`; `slow` delays each chunk; `hold` delivers what was sent in the meantime when it passes again, even for a
 * client that has left; `deaf` passes requests and loses the answers; `hole` loses both; `refuse` takes no connection.
 */
export type WireMode = "pass" | "slow" | "hold" | "deaf" | "hole" | "refuse";

export interface Wire {
  readonly port: number;
  /** Breaks what cannot go on in the new mode: connections that have lost bytes, or all of them for `refuse`. */
  set(mode: WireMode): void;
  /** Leads new connections elsewhere, and ends the others. */
  lead(port: number): void;
  close(): Promise<void>;
}

const SLOW_MS = 40;

/** A TCP proxy on loopback whose connections can be disturbed. */
export async function openWire(target: number): Promise<Wire> {
  const pairs = new Set<Pair>();
  let to = target;
  let mode: WireMode = "pass";
  const server = createServer((client) => {
    if (mode === "refuse") return void client.resetAndDestroy();
    const pair = new Pair(client, connect(to, "127.0.0.1"), () => mode);
    pairs.add(pair);
    pair.onGone = () => pairs.delete(pair);
  });
  const port = await freePort();
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  return {
    port,
    set(next) {
      mode = next;
      for (const pair of pairs) {
        if (next === "refuse" || pair.hasLost) pair.reset();
        else pair.deliver();
      }
    },
    lead(next) {
      to = next;
      for (const pair of pairs) pair.reset();
    },
    async close() {
      for (const pair of pairs) pair.reset();
      server.close();
      await once(server, "close");
    },
  };
}

/** A connection to the wire and the one behind it. */
class Pair {
  readonly #client: Socket;
  readonly #server: Socket;
  readonly #mode: () => WireMode;
  readonly #held: (() => void)[] = [];
  hasLost = false;
  onGone: () => void = () => {};

  constructor(client: Socket, server: Socket, mode: () => WireMode) {
    this.#client = client;
    this.#server = server;
    this.#mode = mode;
    for (const [from, other, isAnswer] of [
      [client, server, false],
      [server, client, true],
    ] as const) {
      from.on("data", (data) => this.#pass(() => void other.write(data), isAnswer));
      from.on("error", () => {});
      other.on("error", () => {});
      from.on("close", () => {
        // A close that the wire holds or has lost keeps its connection known, so that the other end hears of it at last.
        this.#pass(() => {
          other.destroy();
          if (isAnswer) this.onGone();
        }, false);
      });
    }
  }

  deliver(): void {
    if (this.#mode() === "hold") return;
    for (const act of this.#held.splice(0)) act();
  }

  reset(): void {
    this.#client.resetAndDestroy();
    this.#server.resetAndDestroy();
    this.onGone();
  }

  #pass(act: () => void, isAnswer: boolean): void {
    const mode = this.#mode();
    if (mode === "hold") return void this.#held.push(act);
    if (mode === "slow") return void setTimeout(act, SLOW_MS);
    if (mode === "hole" || (mode === "deaf" && isAnswer)) return void (this.hasLost = true);
    act();
  }
}
