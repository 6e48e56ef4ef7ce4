import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Exchange, type ModelRequest } from "./exchange.ts";
import { FailCounts } from "./respond.ts";

export interface ScriptedModelOptions {
  /** The port; 0, the default, means any free one. */
  readonly port?: number;
  /** How many of the newest requests are kept; 1000 by default. */
  readonly keep?: number;
  /** Called with each request before its answer. */
  readonly onRequest?: (request: ModelRequest) => void;
}

export interface ScriptedModel {
  readonly url: string;
  readonly port: number;
  /** The newest requests, oldest first. */
  readonly requests: readonly ModelRequest[];
  /** Forgets the requests and the counts of failures. */
  reset(): void;
  /** Cuts running answers and frees the port. */
  close(): Promise<void>;
}

/** Starts a model that plays scripts, on a loopback port. */
export async function createScriptedModel(options: ScriptedModelOptions = {}): Promise<ScriptedModel> {
  const { port = 0, keep = 1000, onRequest } = options;
  const counts = new FailCounts();
  const requests: ModelRequest[] = [];
  const onAsked = (request: ModelRequest): void => {
    requests.push(request);
    if (requests.length > keep) requests.shift();
    onRequest?.(request);
  };
  const server = createServer((incoming, outgoing) => {
    void new Exchange(incoming, outgoing).run({ counts, onAsked });
  });
  // A script may sleep longer than these limits.
  server.requestTimeout = 0;
  server.timeout = 0;
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  const bound = (server.address() as AddressInfo).port;
  return {
    url: `http://127.0.0.1:${bound}`,
    port: bound,
    requests,
    reset() {
      requests.length = 0;
      counts.clear();
    },
    async close() {
      if (!server.listening) return;
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
