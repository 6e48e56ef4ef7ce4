import { once } from "node:events";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { dirname } from "node:path";
import type { Catalog } from "../../../catalog/port.ts";
import { readSigningKey } from "../collections.ts";

export interface LoopbackOptions {
  readonly catalog: Catalog;
  /** The purpose of the key that signs the tokens of this listener. */
  readonly purpose: Parameters<typeof readSigningKey>[1];
  /** Holds the port number, which stays the same: sandboxes and agents outlive the server. */
  readonly portFile: string;
  /** The status of a response that failed before its head was written. */
  readonly failureStatus: number;
}

export interface Loopback {
  /** Listens from the first call on. */
  start(): Promise<{ readonly port: number; readonly key: string }>;
  close(): Promise<void>;
}

/** A listener on loopback for the sandboxes of this machine, started on first use. A failed start is tried again. */
export function createLoopback(
  { catalog, purpose, portFile, failureStatus }: LoopbackOptions,
  serve: (key: string, request: IncomingMessage, response: ServerResponse) => Promise<void>,
): Loopback {
  let started: Promise<{ port: number; key: string; server: Server }> | undefined;
  const open = async (): Promise<{ port: number; key: string; server: Server }> => {
    const key = await readSigningKey(catalog, purpose);
    const server = createServer((request, response) => {
      serve(key, request, response).catch(() => {
        if (!response.headersSent) response.writeHead(failureStatus);
        response.end();
      });
    });
    try {
      return { port: await listenOn(server, portFile), key, server };
    } catch (error) {
      server.close();
      throw error;
    }
  };
  return {
    start: () => {
      started ??= open().catch((error: unknown) => {
        started = undefined;
        throw error;
      });
      return started;
    },
    async close() {
      const server = (await started?.catch(() => undefined))?.server;
      if (!server) return;
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

/** Listens, and notes the port. The port of the previous server is tried first: running programs still call it. */
async function listenOn(server: Server, portFile: string): Promise<number> {
  const before = Number(await readFile(portFile, "utf8").catch(() => "0"));
  const tries = Number.isInteger(before) && before > 0 && before < 65_536 ? [before, 0] : [0];
  for (const wanted of tries) {
    server.listen(wanted, "127.0.0.1");
    const isListening = await once(server, "listening").then(
      () => true,
      () => false,
    );
    if (!isListening) continue;
    const { port } = server.address() as AddressInfo;
    await mkdir(dirname(portFile), { recursive: true });
    await writeFile(portFile, String(port), { mode: 0o600 });
    return port;
  }
  throw new Error(`no free port of this machine was found for ${portFile}`);
}
