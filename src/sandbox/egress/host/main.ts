import { createHash } from "node:crypto";
import { lstatSync, renameSync, rmSync, statSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { openTape, type Tape } from "../../../gateway/cassette/tape.ts";
import { openRecords, type RecordWriter } from "../../../gateway/record.ts";
import { readHead } from "../connection.ts";
import {
  EGRESS_SOCKET,
  PRESENCE_PATH,
  SETTINGS_VARIABLE,
  type GatewaySettings,
  type HostSettings,
} from "../protocol.ts";
import { createResolve } from "./dial.ts";
import { createModelGateway } from "./gateway.ts";
import { Lender } from "./lender.ts";
import { createProxy } from "./proxy.ts";

const WATCH_MS = 2_000;
const LISTENER_FD = 3;
const LEAVE_MS = 2_000;

async function main(): Promise<void> {
  const text = process.env[SETTINGS_VARIABLE] ?? "";
  const settings = JSON.parse(text) as HostSettings;
  const fingerprint = createHash("sha256").update(text).digest("hex");
  for (const signal of ["SIGHUP", "SIGINT"] as const) process.on(signal, () => {});
  // Its folder is not open to the sandbox's user.
  const records = settings.gateway && openRecords(settings.gateway.records);
  const tape = openCassette(settings);
  dropRoot();
  if (settings.gateway?.port !== undefined && records) return serveListener(settings, records, tape);
  // Another egress host with the same settings runs already.
  if (await isServed(fingerprint)) return;
  records?.write({ type: "boot", time: Date.now() });
  const presence = new Presence(settings.graceMs, leave);
  const { patterns, privates, names, lent } = settings;
  const lender = lent && new Lender(lent);
  const resolve = createResolve(names);
  const ways = { patterns, privates, resolve, lender };
  const gateway =
    settings.gateway && records && createModelGateway(settings.gateway, { privates, resolve, records, tape });
  const proxy = createProxy({
    ...ways,
    authority: lent?.authority,
    gateway,
    fingerprint,
    onGuest: (guest) => presence.welcome(guest),
  });
  const own = `egress.${process.pid}.tmp`;
  rmSync(own, { force: true });
  // The socket is open to all users; its folder keeps others out. A chmod after listening would go by a path that the
  // agent can replace.
  process.umask(0);
  proxy.on("error", leave);
  proxy.on("connection", (socket) => presence.add(socket));
  proxy.listen(own, () => {
    const { ino } = lstatSync(own);
    // A rename is atomic: of two egress hosts that start at the same time, one wins.
    renameSync(own, EGRESS_SOCKET);
    const watch = setInterval(() => {
      const found = lstatSync(EGRESS_SOCKET, { throwIfNoEntry: false });
      if (found === undefined) leave();
      if (found.ino === ino) return;
      // Another egress host has taken over. Open connections here go on to their end.
      clearInterval(watch);
      presence.dismiss();
      proxy.close(leave);
    }, WATCH_MS);
  });
}

/** Without a network of its own, a sandbox has no proxy: the gateway is alone, on a socket that its starter opened. */
function serveListener(
  { gateway, names }: HostSettings,
  records: RecordWriter,
  tape: Tape | Error | undefined,
): void {
  records.write({ type: "boot", time: Date.now() });
  const server = createModelGateway(gateway as GatewaySettings, {
    resolve: createResolve(names),
    records,
    tape,
  });
  server.on("error", leave);
  server.listen({ fd: LISTENER_FD });
  const end = (): void => {
    // The ends of the requests that the agent left open are still recorded.
    setTimeout(leave, LEAVE_MS);
    server.close(leave);
    server.closeIdleConnections();
  };
  process.stdin.on("end", end).on("error", end).resume();
}

/** The cassette may lie in a folder that is not open to the sandbox's user either. Without it the gateway says why. */
function openCassette({ gateway }: HostSettings): Tape | Error | undefined {
  const cassette = gateway?.launch.cassette;
  try {
    return cassette && openTape(cassette);
  } catch (error) {
    return error as Error;
  }
}

/** Changes from root to the sandbox's user, whose rights are enough to forward bytes. */
function dropRoot(): void {
  if (process.getuid?.() !== 0) return;
  const { uid, gid } = statSync(".");
  if (uid === 0) return;
  process.setgroups?.([]);
  process.setgid?.(gid);
  process.setuid?.(uid);
}

/** Whether another egress host has this fingerprint. The request counts as a guest, and keeps the other host alive. */
async function isServed(fingerprint: string): Promise<boolean> {
  const socket = connect(EGRESS_SOCKET);
  socket.write(`GET ${PRESENCE_PATH} HTTP/1.1\r\nHost: sluice\r\n\r\n`);
  return readHead(socket, { terminator: "\r\n\r\n", limit: 1_024, timeoutMs: 5_000 })
    .then(
      (head) => head.includes(fingerprint),
      () => false,
    )
    .finally(() => socket.on("error", () => {}).destroy());
}

function leave(): never {
  process.exit(0);
}

/** The least time for the first connection: the sandbox may be slow to start. */
const FIRST_MS = 60_000;

/** Counts the connections of guests and clients, and reports when there has been none for a while. */
class Presence {
  readonly #graceMs: number;
  readonly #onGone: () => void;
  readonly #open = new Set<Socket>();
  readonly #guests = new Set<Socket>();
  #timer: NodeJS.Timeout;
  #dismissed = false;

  constructor(graceMs: number, onGone: () => void) {
    this.#graceMs = graceMs;
    this.#onGone = onGone;
    this.#timer = setTimeout(onGone, Math.max(graceMs, FIRST_MS));
  }

  add(connection: Socket): void {
    clearTimeout(this.#timer);
    this.#open.add(connection);
    connection.on("close", () => this.#remove(connection));
    if (connection.destroyed) this.#remove(connection);
  }

  /** Marks a connection as one that a guest keeps open as long as it runs. */
  welcome(guest: Socket): void {
    this.#guests.add(guest);
  }

  /** Closes the guests' connections, so that they go to the new egress host, and stops the timer. */
  dismiss(): void {
    this.#dismissed = true;
    clearTimeout(this.#timer);
    for (const guest of this.#guests) guest.destroy();
  }

  #remove(connection: Socket): void {
    this.#guests.delete(connection);
    this.#open.delete(connection);
    if (this.#open.size > 0 || this.#dismissed) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(this.#onGone, this.#graceMs);
  }
}

// It runs in the sandbox's folder, so all paths are short, and it needs no access to the parent folders.
// Called at the end of the file, when its classes and constants are defined.
await main();
