import { lookup } from "node:dns/promises";
import { connect, isIP, type Socket } from "node:net";
import { judge, type HostRules } from "../allow-list.ts";
import { isLoopbackHost } from "../host-port.ts";
import { toAddressKind, type AddressKind } from "./address.ts";
import { insideTheHost, neverReachable, notAllowed, unreachable } from "./refusal.ts";

type Resolve = (host: string) => Promise<readonly string[]>;

export interface DialOptions extends HostRules {
  readonly resolve: Resolve;
}

const CONNECT_MS = 20_000;

/** Connects to an allowed host, and only by an address that was checked. */
export async function dial(host: string, port: number, options: DialOptions): Promise<Socket> {
  const verdict = judge(options, host, port);
  if (verdict === "refused") throw notAllowed(host, port);
  const addresses = await resolveAll(host, port, options.resolve);
  const checked = addresses.filter((address) => isOpen(toAddressKind(address), verdict === "private", host));
  if (checked.length === 0) throw toRefusal(host, port, addresses);
  return connectTo(host, port, checked);
}

/** Looks a name up in a table, as in a hosts file, and then by this machine's resolver. */
export function createResolve(names: Readonly<Record<string, readonly string[]>> = {}): Resolve {
  const table = new Map(Object.entries(names));
  return async (host) => {
    const given = table.get(host);
    if (given !== undefined) return given;
    return (await lookup(host, { all: true })).map(({ address }) => address);
  };
}

async function resolveAll(host: string, port: number, resolve: Resolve): Promise<readonly string[]> {
  if (isIP(host) !== 0) return [host];
  if (isLoopbackHost(host)) return ["127.0.0.1", "::1"];
  try {
    return await within(CONNECT_MS, resolve(host));
  } catch (error) {
    throw unreachable(host, port, `its name was not resolved (${toCode(error)}).`);
  }
}

function isOpen(kind: AddressKind, isPrivate: boolean, host: string): boolean {
  if (kind === "public") return true;
  if (kind === "unusable" || !isPrivate) return false;
  return !isOnlyByAddress(kind) || isIP(host) !== 0;
}

/** Whether only an address may be allowed, and no name: 169.254.169.254 and similar addresses hand out credentials. */
function isOnlyByAddress(kind: AddressKind): boolean {
  return kind === "link-local" || kind === "metadata";
}

function toRefusal(host: string, port: number, addresses: readonly string[]): Error {
  const kinds = addresses.map(toAddressKind);
  const found = addresses.map((address, at) => `${address}, ${kinds[at]}`).join("; ");
  if (addresses.length === 0) return unreachable(host, port, "its name has no address.");
  if (kinds.every((kind) => kind === "unusable" || (isOnlyByAddress(kind) && isIP(host) === 0))) {
    return neverReachable(host, port, found);
  }
  return insideTheHost(host, port, found);
}

function connectTo(host: string, port: number, checked: readonly string[]): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({
      host: "checked.invalid",
      port,
      allowHalfOpen: true,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: 60_000,
      autoSelectFamily: true,
      autoSelectFamilyAttemptTimeout: 2_000,
      // The name is not resolved again, because a second answer could differ.
      lookup: (_name, _options, done) =>
        done(
          null,
          checked.map((address) => ({ address, family: isIP(address) })),
        ),
    });
    const fail = (why: string): void => {
      socket.destroy();
      reject(unreachable(host, port, why));
    };
    socket.setTimeout(CONNECT_MS, () => fail(`no answer within ${CONNECT_MS / 1_000} seconds.`));
    const onError = (error: Error): void => fail(`${toCode(error)}.`);
    socket.once("error", onError);
    socket.once("connect", () => {
      socket.setTimeout(0);
      socket.removeAllListeners("timeout");
      socket.off("error", onError);
      resolve(socket);
    });
  });
}

function toCode(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return code ?? message;
}

async function within<T>(ms: number, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error("no answer in time")), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
