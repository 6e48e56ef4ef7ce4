import { Duplex } from "node:stream";
import type { Client, ClientChannel } from "ssh2";

/** A channel as a stream that ends with its connection. A channel of ssh2 itself tells nobody that it is lost. */
export class ChannelStream extends Duplex {
  readonly #channel: ClientChannel;
  readonly #client: Client;
  readonly #onLost = (): void => void this.destroy(new Error("the connection was cut"));

  constructor(channel: ClientChannel, client: Client) {
    super({ allowHalfOpen: true });
    this.#channel = channel;
    this.#client = client;
    channel.on("data", (chunk: Buffer) => {
      if (!this.push(chunk)) channel.pause();
    });
    channel.on("end", () => this.push(null));
    channel.on("close", () => this.destroy());
    channel.on("error", (error: Error) => this.destroy(error));
    client.setMaxListeners(0).on("close", this.#onLost);
  }

  override _read(): void {
    this.#channel.resume();
  }

  override _write(chunk: Buffer, encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#channel.write(chunk, encoding, done);
  }

  override _final(done: () => void): void {
    this.#channel.end();
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#client.off("close", this.#onLost);
    this.#channel.close();
    done(error);
  }
}
