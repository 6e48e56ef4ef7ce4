import { closeSync, openSync, writeSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { announce, forwardToProxy, tunnelTo } from "./egress.ts";
import { serveIngress } from "./ingress.ts";
import type { GuestSettings } from "./settings.ts";

// What is sent to the agent's process group is not meant for its network. It ends with the namespace.
for (const signal of ["SIGHUP", "SIGINT", "SIGTERM", "SIGQUIT"] as const) process.on(signal, () => {});
await main();

async function main(): Promise<void> {
  const { proxyPort, tunnels } = JSON.parse(process.argv[2] ?? "") as GuestSettings;
  const isFirst = proxyPort === undefined || (await tryListen("127.0.0.1", proxyPort, forwardToProxy));
  const opened = await Promise.all(
    tunnels.map(({ address, port, target }) =>
      tryListen(address, port, (client) => tunnelTo(target, client)),
    ),
  );
  // Another process of this namespace has brought all of it already.
  if (!isFirst && !opened.includes(true)) process.exit(0);
  if (isFirst) await serveIngress().catch(say);
  endOutput();
  if (proxyPort !== undefined) void announce();
}

/** False where somebody listens already, or where there is no such address: without IPv6 the other one is there. */
async function tryListen(...args: Parameters<typeof listen>): Promise<boolean> {
  try {
    await listen(...args);
    return true;
  } catch (error) {
    const { code = "" } = error as NodeJS.ErrnoException;
    if (!["EADDRINUSE", "EADDRNOTAVAIL", "EAFNOSUPPORT"].includes(code)) say(error);
    return false;
  }
}

function listen(host: string, port: number, serve: (client: Socket) => Promise<void>): Promise<void> {
  return new Promise((resolve, reject) => {
    const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => void serve(client));
    server.maxConnections = 1_024;
    server.once("error", reject);
    server.listen({ host, port }, resolve);
  });
}

function say(error: unknown): void {
  writeSync(1, `sluice: the network bridge is not whole: ${(error as Error).message}\n`);
}

/** The end of the output is the sign to go on. The descriptors stay taken, lest a socket be mistaken for them. */
function endOutput(): void {
  for (const descriptor of [1, 2]) closeSync(descriptor);
  for (let count = 0; count < 2; count++) openSync("/dev/null", "w");
}
