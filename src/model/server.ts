import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { FailCounts } from "./fail-counts.ts";
import { Exchange } from "./exchange.ts";
import type { Wire } from "./wire.ts";

export interface ScriptedModelOptions {
  /** 0, the default, takes any free one. */
  readonly port?: number;
  /** How many requests are kept, the newest; 1000 by default. */
  readonly keep?: number;
  /** Told of each request before it is answered. */
  readonly onRequest?: (request: ModelRequest) => void;
}

/** What was asked. */
export interface ModelRequest {
  readonly method: string;
  readonly path: string;
  readonly wire?: Wire["id"];
  readonly model?: string;
  /** Parsed; undefined where it is no JSON. */
  readonly body: unknown;
}

export interface ScriptedModel {
  readonly url: string;
  readonly port: number;
  /** The newest requests, oldest first. */
  readonly requests: readonly ModelRequest[];
  /** Forgets the requests, and the failures that were counted. */
  reset(): void;
  /** Cuts what is being answered and frees the port. */
  close(): Promise<void>;
}

/** A model that plays scripts, on a port of the loopback. */
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
  // A script may sleep for longer than any of these would wait.
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
