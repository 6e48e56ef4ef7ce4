import type { ServerResponse } from "node:http";

/** Where a stream's bytes go. The loop that feeds it is the same for a socket and for a `Response` in process. */
export interface Sink {
  readonly closed: boolean;
  /** False when the reader should be given no more before `drained()`. */
  write(bytes: Uint8Array | string): boolean;
  /** Whether what was written has left, so that a ping can say something new. */
  readonly idle: boolean;
  /** Resolves when there is room again, or when the reader has gone. */
  drained(): Promise<void>;
  end(): void;
  /** Breaks off, so that the reader can tell a cut from an end. */
  cut(): void;
  /** Called once, when the reader has gone or the stream is over. */
  onClose(listener: () => void): void;
}

/** Straight to the socket: what cannot be written yet stays in the log, not in memory. */
export function createSocketSink(outgoing: ServerResponse): Sink {
  let roomAgain: (() => void) | undefined;
  const go = (): void => {
    roomAgain?.();
    roomAgain = undefined;
  };
  outgoing.on("drain", go);
  outgoing.on("close", go);
  // A reader that goes in the middle of a write is no error of ours; "close" follows.
  outgoing.on("error", go);
  return {
    get closed() {
      return outgoing.destroyed || outgoing.writableEnded;
    },
    get idle() {
      return !outgoing.writableNeedDrain;
    },
    write(bytes) {
      const hasRoom = outgoing.write(bytes);
      // Node holds a write back until all that is ready to run has run, the request that caused the event included.
      outgoing.socket?.uncork();
      return hasRoom;
    },
    drained: () =>
      new Promise((resolve) => {
        if (outgoing.destroyed || !outgoing.writableNeedDrain) return resolve();
        roomAgain = resolve;
      }),
    end: () => void outgoing.end(),
    cut: () => void outgoing.destroy(),
    onClose: (listener) => void outgoing.once("close", listener),
  };
}

/** A body for a `Response` that never meets a socket of ours. */
export function createBodySink(): { sink: Sink; body: ReadableStream<Uint8Array> } {
  const encoder = new TextEncoder();
  const listeners: (() => void)[] = [];
  let roomAgain: (() => void) | undefined;
  let closed = false;
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  const go = (): void => {
    roomAgain?.();
    roomAgain = undefined;
  };
  const close = (): void => {
    if (closed) return;
    closed = true;
    go();
    for (const listener of listeners) listener();
  };
  const hasRoom = (): boolean => (controller?.desiredSize ?? 0) > 0;
  const body = new ReadableStream<Uint8Array>(
    { start: (started) => void (controller = started), pull: go, cancel: close },
    { highWaterMark: 1 << 16, size: (bytes) => bytes?.byteLength ?? 0 },
  );
  const sink: Sink = {
    get closed() {
      return closed;
    },
    get idle() {
      return hasRoom();
    },
    write(bytes) {
      if (closed) return false;
      controller?.enqueue(typeof bytes === "string" ? encoder.encode(bytes) : bytes);
      return hasRoom();
    },
    drained: () =>
      new Promise((resolve) => {
        if (closed || hasRoom()) return resolve();
        roomAgain = resolve;
      }),
    end() {
      if (!closed) controller?.close();
      close();
    },
    cut() {
      if (!closed) controller?.error(new Error("The stream was cut."));
      close();
    },
    onClose: (listener) => void listeners.push(listener),
  };
  return { sink, body };
}
