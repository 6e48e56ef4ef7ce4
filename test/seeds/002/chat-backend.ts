import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { ndjsonToSse } from "../../../src/dialects/ndjson/index.ts";

/** A chat backend as the page draws it: between a browser and a sandbox run. */
export interface ChatBackend {
  readonly url: string;
  /** The lines that do not reach the browser. */
  readonly trace: string[];
  /** For each request, whether the run reached its end. */
  readonly ends: Promise<boolean>[];
  close(): Promise<void>;
}

export async function startChatBackend(run: {
  url: string;
  token: string;
  body: (prompt: string) => object;
}): Promise<ChatBackend> {
  const trace: string[] = [];
  const ends: Promise<boolean>[] = [];
  const server: Server = createServer((request, response) => {
    const abort = new AbortController();
    response.once("close", () => abort.abort());
    const serve = async (): Promise<void> => {
      const prompt = new URL(request.url ?? "/", "http://x").searchParams.get("prompt") ?? "";
      const upstream = await fetch(`${run.url}/stream`, {
        method: "POST",
        body: JSON.stringify(run.body(prompt)),
        headers: { authorization: `Bearer ${run.token}` },
        signal: abort.signal,
      });
      response.writeHead(upstream.status, { "content-type": "text/event-stream" });
      const onLog = ({ message }: { message: string }): void => void trace.push(message);
      const events = (upstream.body as ReadableStream<Uint8Array>).pipeThrough(ndjsonToSse({ onLog }));
      await pipeline(Readable.fromWeb(events as never), response);
    };
    ends.push(
      serve().then(
        () => true,
        () => false,
      ),
    );
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    trace,
    ends,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
      await Promise.all(ends);
    },
  };
}
