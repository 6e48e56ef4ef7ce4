import { closeSync, openSync, writeSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { announce, forwardToProxy, tunnelTo } from "./egress.ts";
import { serveIngress } from "./ingress.ts";
import type { GuestSettings } from "./settings.ts";

// What is sent to the agent's process group is not meant for its network. It ends with the namespace.
for (const signal of ["SIGHUP", "SIGINT", "SIGTERM", "SIGQUIT"] as const) process.on(signal, () => {});
await main();

async function main(): Promise<void> {
  const settings = JSON.parse(process.argv[2] ?? "") as GuestSettings;
  const { proxyPort, tunnels } = settings;
  try {
    if (proxyPort !== undefined) await listen("127.0.0.1", proxyPort, forwardToProxy);
  } catch (error) {
    // Another process of this namespace has brought the bridge already.
    if ((error as NodeJS.ErrnoException).code === "EADDRINUSE") process.exit(0);
    say(error);
  }
  const attempts = tunnels.map(({ address, port, target }) =>
    listen(address, port, (client) => tunnelTo(target, client)).catch((error: NodeJS.ErrnoException) => {
      // Without IPv6 the other address is there.
      if (error.code !== "EADDRNOTAVAIL" && error.code !== "EAFNOSUPPORT") say(error);
    }),
  );
  await Promise.all([...attempts, serveIngress().catch(say)]);
  endOutput();
  if (proxyPort !== undefined) void announce();
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
