import type { Socket } from "node:net";

export interface PeekOptions<T> {
  /** What the words so far say; undefined where they are too few. */
  readonly decide: (words: Buffer) => T | undefined;
  /** Where the server speaks first, or somebody leaves. */
  readonly otherwise: T;
}

/** Looks at what a client says first and leaves it to be read. */
export function peek<T>(client: Socket, server: Socket, { decide, otherwise }: PeekOptions<T>): Promise<T> {
  return new Promise((resolve) => {
    let words = Buffer.alloc(0);
    const finish = (outcome: T): void => {
      client.off("readable", look).off("end", leave).off("close", leave);
      server.off("readable", hear).off("end", leave).off("close", leave);
      // After its end a stream takes nothing back: who leaves in the middle of a word has said nothing.
      if (words.length > 0 && client.readableEnded) client.destroy();
      else if (words.length > 0) client.unshift(words);
      resolve(outcome);
    };
    const look = (): void => {
      const chunk = client.read() as Buffer | null;
      if (chunk === null) return;
      words = Buffer.concat([words, chunk]);
      const outcome = decide(words);
      if (outcome !== undefined) finish(outcome);
    };
    const hear = (): void => {
      if (server.readableLength > 0) finish(otherwise);
    };
    const leave = (): void => finish(otherwise);
    client.on("readable", look).on("end", leave).on("close", leave);
    server.on("readable", hear).on("end", leave).on("close", leave);
    look();
  });
}
