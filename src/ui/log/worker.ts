import { LogEngine } from "./engine.ts";
import type { FromLog, ToLog } from "./protocol.ts";

/** The worker of one session. */
const scope = globalThis as unknown as {
  postMessage(message: FromLog): void;
  onmessage: ((event: MessageEvent<ToLog>) => void) | null;
};
// oxlint-disable-next-line unicorn/require-post-message-target-origin -- a worker has one receiver
const engine = new LogEngine((message) => scope.postMessage(message));
scope.onmessage = (event) => engine.receive(event.data);
