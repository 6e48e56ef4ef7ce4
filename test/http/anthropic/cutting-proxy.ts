import { once } from "node:events";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** A network that fails at a chosen moment, between a client and a server. */
export interface CuttingProxy {
  readonly url: string;
  /** Holds the responses to the next requests until all have arrived; then calls `happen` and cuts all connections. */
  cutAnswers(count: number, happen: () => Promise<void>): void;
  /** Forwards the next request without its response: calls `happen` instead and cuts the connection. */
  cutAt(moment: Promise<unknown>, happen: () => Promise<void>): void;
  /** The count of requests that were marked as resends. */
  resent(): number;
  close(): Promise<void>;
}

export async function openCuttingProxy(target: string): Promise<CuttingProxy> {
  let fate: Fate | undefined;
  let resent = 0;
  const server = createServer((incoming, response) => {
    if (Number(incoming.headers["x-stainless-retry-count"] ?? 0) > 0) resent += 1;
    const mine = fate?.take();
    const answer = pass(target, incoming);
    if (mine) void mine(answer).then(() => response.destroy());
    else answer.then((upstream) => hand(upstream, response)).catch(() => response.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    cutAnswers(count, happen) {
      fate = holdAll(count, happen);
    },
    cutAt(moment, happen) {
      fate = waitFor(moment, happen);
    },
    resent: () => resent,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

/** The handling of the next requests; undefined afterwards. */
interface Fate {
  take(): ((answer: Promise<IncomingMessage>) => Promise<void>) | undefined;
}

function holdAll(count: number, happen: () => Promise<void>): Fate {
  let [left, unanswered] = [count, count];
  const happened = new AbortController();
  return {
    take() {
      if (left === 0) return undefined;
      left -= 1;
      return async (answer) => {
        const upstream = await answer;
        for await (const _ of upstream);
        unanswered -= 1;
        if (unanswered > 0) return void (await once(happened.signal, "abort"));
        await happen();
        happened.abort();
      };
    },
  };
}

function waitFor(moment: Promise<unknown>, happen: () => Promise<void>): Fate {
  let isTaken = false;
  return {
    take() {
      if (isTaken) return undefined;
      isTaken = true;
      return async (answer) => {
        answer.then(
          (upstream) => upstream.resume(),
          () => {},
        );
        await moment;
        await happen();
      };
    },
  };
}

function pass(target: string, incoming: IncomingMessage): Promise<IncomingMessage> {
  const { method, headers, url } = incoming;
  const outgoing = request(new URL(url ?? "/", target), { method: method ?? "GET", headers, agent: false });
  incoming.pipe(outgoing);
  return once(outgoing, "response").then(([upstream]) => upstream as IncomingMessage);
}

function hand(upstream: IncomingMessage, response: ServerResponse): void {
  response.writeHead(upstream.statusCode ?? 502, upstream.headers);
  upstream.on("error", () => response.destroy());
  upstream.pipe(response);
}
