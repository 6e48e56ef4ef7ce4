import type { ServerResponse } from "node:http";

/** The target of a stream: a socket, or a `Response` in process. */
export interface Sink {
  readonly closed: boolean;
  /** False if the next write should wait for `drained()`. */
  write(bytes: Uint8Array | string): boolean;
  /** True if all written bytes have left. Only then is a ping useful: after unsent bytes it would wait with them. */
  readonly idle: boolean;
  /** Resolves when there is room again, or when the reader has left. */
  drained(): Promise<void>;
  end(): void;
  /** Breaks off, so that the reader can distinguish a cut from an end. */
  cut(): void;
  /** Called once, when the reader has left or the stream has ended. */
  onClose(listener: () => void): void;
}

/** Writes straight to the socket. Events for which it has no room yet stay in the log. */
export function createSocketSink(outgoing: ServerResponse): Sink {
  let roomAgain: (() => void) | undefined;
  const resumeWrites = (): void => {
    roomAgain?.();
    roomAgain = undefined;
  };
  outgoing.on("drain", resumeWrites);
  outgoing.on("close", resumeWrites);
  // A reader that leaves during a write is no error; "close" follows.
  outgoing.on("error", resumeWrites);
  return {
    get closed() {
      return outgoing.destroyed || outgoing.writableEnded;
    },
    get idle() {
      return !outgoing.writableNeedDrain;
    },
    write(bytes) {
      const hasRoom = outgoing.write(bytes);
      // Sends now. Node would otherwise first run all ready callbacks, such as that of the causing request.
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

/** The body of a `Response` in process. */
export function createBodySink(): { sink: Sink; body: ReadableStream<Uint8Array> } {
  const encoder = new TextEncoder();
  const listeners: (() => void)[] = [];
  let roomAgain: (() => void) | undefined;
  let closed = false;
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  const resumeWrites = (): void => {
    roomAgain?.();
    roomAgain = undefined;
  };
  const close = (): void => {
    if (closed) return;
    closed = true;
    resumeWrites();
    for (const listener of listeners) listener();
  };
  const hasRoom = (): boolean => (controller?.desiredSize ?? 0) > 0;
  const body = new ReadableStream<Uint8Array>(
    { start: (started) => void (controller = started), pull: resumeWrites, cancel: close },
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
