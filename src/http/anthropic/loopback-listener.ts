import { once } from "node:events";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { dirname } from "node:path";

export interface LoopbackListener {
  readonly port: number;
  close(): Promise<void>;
}

/** Listens on the port of the life before, where it is free: what runs still asks there. */
export async function listenOnLoopback(file: string, serve: RequestListener): Promise<LoopbackListener> {
  const server = createServer(serve);
  const before = Number(await readFile(file, "utf8").catch(() => "0"));
  const tries = Number.isInteger(before) && before > 0 && before < 65_536 ? [before, 0] : [0];
  for (const port of tries) {
    server.listen(port, "127.0.0.1");
    const isListening = await once(server, "listening").then(
      () => true,
      () => false,
    );
    if (!isListening) continue;
    const bound = (server.address() as AddressInfo).port;
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, String(bound), { mode: 0o600 });
    return {
      port: bound,
      async close() {
        server.closeAllConnections();
        server.close();
        await once(server, "close");
      },
    };
  }
  throw new Error(`no port of this machine could be listened on for ${file}`);
}
