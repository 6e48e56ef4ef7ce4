import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { GatewayAccess, GatewayLaunch } from "../../contract/process.ts";
import type { Tunnel } from "./allow-list.ts";
import { toAuthority } from "./connection.ts";

/** The gateway's name in allow lists. The egress host answers for it itself; it is never resolved. */
const GATEWAY_NAME = "gateway.sluice.internal";
/** The port inside, joined with the gateway by the egress guest. */
const GATEWAY_PORT = 47_117;

/** The entry that a led launch has among its hosts. */
export const GATEWAY_HOST: string = toAuthority(GATEWAY_NAME, GATEWAY_PORT);

export const GATEWAY_TUNNEL: Tunnel = { address: "127.0.0.1", port: GATEWAY_PORT, target: GATEWAY_HOST };

/** The `Host` headers of requests from inside. */
export function toGatewayNames(port: number = GATEWAY_PORT): readonly string[] {
  return [`127.0.0.1:${port}`, `localhost:${port}`];
}

export function isGateway(host: string, port: number): boolean {
  return host === GATEWAY_NAME && port === GATEWAY_PORT;
}

/** The gateway of a sandbox whose processes have a loopback of their own. */
export function toGatewayAccess(folder: string): GatewayAccess {
  return {
    url: async () => `http://127.0.0.1:${GATEWAY_PORT}`,
    host: GATEWAY_HOST,
    records: toRecordsFile(folder),
  };
}

/** The file of the gateway's records. No process inside sees the folder. */
export function toRecordsFile(folder: string): string {
  return join(folder, "gateway.records");
}

/** Stores the gateway's settings, from which every later start of the egress host gets them. */
export function keepGateway(folder: string, launch: GatewayLaunch): void {
  const text = JSON.stringify(launch);
  const file = toFile(folder);
  if (existsSync(file) && readFileSync(file, "utf8") === text) return;
  writeFileSync(`${file}.new`, text, { mode: 0o600 });
  renameSync(`${file}.new`, file);
}

export function findGateway(folder: string): GatewayLaunch | undefined {
  const file = toFile(folder);
  return existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as GatewayLaunch) : undefined;
}

function toFile(folder: string): string {
  return join(folder, "gateway.json");
}
