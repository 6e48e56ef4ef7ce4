import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

export interface Received {
  readonly headers: Record<string, string>;
  readonly body: string;
  readonly id: string;
  readonly type: string;
  readonly session: string;
  /** The status of the response. */
  readonly status: number;
}

export interface Receiver {
  readonly url: string;
  readonly received: readonly Received[];
  /** The webhooks with status 200. */
  taken(session?: string): Received[];
  /** Sets the status of the next responses. */
  answer(status: number, headers?: Record<string, string>): void;
  /** Waits for a matching webhook. */
  until(isIt: (received: Received) => boolean): Promise<Received>;
  close(): Promise<void>;
}

/** A real endpoint on loopback. */
export async function openReceiver(): Promise<Receiver> {
  const received: Received[] = [];
  const waiting = new Set<() => void>();
  let answer: { status: number; headers: Record<string, string> } = { status: 200, headers: {} };
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks).toString();
    const { type, data } = JSON.parse(body) as {
      type: string;
      data: { type?: string; id?: string; session?: string };
    };
    const { status, headers } = answer;
    response.writeHead(status, headers).end();
    received.push({
      headers: request.headers as Record<string, string>,
      body,
      id: request.headers["webhook-id"] as string,
      type: data.type ?? type,
      session: data.id ?? data.session ?? "",
      status,
    });
    for (const wake of waiting) wake();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook?token=in-the-address`,
    received,
    taken: (session) =>
      received.filter((one) => one.status === 200 && (session === undefined || one.session === session)),
    answer(status, headers = {}) {
      answer = { status, headers };
    },
    until: (isIt) =>
      new Promise((resolve) => {
        const look = (): void => {
          const found = received.find(isIt);
          if (!found) return;
          waiting.delete(look);
          resolve(found);
        };
        waiting.add(look);
        look();
      }),
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
