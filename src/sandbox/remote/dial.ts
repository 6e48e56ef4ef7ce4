import { Agent } from "node:http";
import type { Duplex } from "node:stream";

/** Opens a byte stream to a runner. Fails where the machine cannot be reached. */
export type Dial = () => Promise<Duplex>;

/** Keeps idle streams to a runner for later calls. */
export class DialAgent extends Agent {
  readonly #dial: Dial;

  constructor(dial: Dial) {
    super({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY, maxFreeSockets: 4, scheduling: "lifo" });
    this.#dial = dial;
  }

  override getName(): string {
    return "runner";
  }

  // Node hands over a callback for connections that take a while.
  override createConnection(
    _options: object,
    callback?: (error: Error | null, stream: Duplex) => void,
  ): undefined {
    void this.#open(callback ?? (() => {}));
  }

  async #open(done: (error: Error | null, stream: Duplex) => void): Promise<void> {
    try {
      done(null, decorate(await this.#dial()));
    } catch (error) {
      done(error as Error, undefined as unknown as Duplex);
    }
  }
}

/** The methods of a socket that Node's HTTP client calls, for a stream that has none of them. */
export function decorate(stream: Duplex): Duplex {
  const bare = stream as Duplex & Record<string, unknown>;
  for (const name of ["setTimeout", "setNoDelay", "setKeepAlive", "ref", "unref"]) bare[name] ??= () => bare;
  bare["destroySoon"] ??= () => bare.destroy();
  return bare;
}
