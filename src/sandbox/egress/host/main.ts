import { createHash } from "node:crypto";
import { lstatSync, renameSync, rmSync, statSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { readHead } from "../connection.ts";
import { EGRESS_SOCKET, PRESENCE_PATH, SETTINGS_VARIABLE, type HostSettings } from "../protocol.ts";
import { createResolve } from "./dial.ts";
import { Interceptor } from "./interceptor.ts";
import { Lender } from "./lender.ts";
import { createProxy } from "./proxy.ts";

const WATCH_MS = 2_000;

async function main(): Promise<void> {
  const text = process.env[SETTINGS_VARIABLE] ?? "";
  const settings = JSON.parse(text) as HostSettings;
  const fingerprint = createHash("sha256").update(text).digest("hex");
  for (const signal of ["SIGHUP", "SIGINT"] as const) process.on(signal, () => {});
  dropRoot();
  // Another egress host with the same settings runs already.
  if (await isServed(fingerprint)) return;
  const presence = new Presence(settings.graceMs, leave);
  const { patterns, privates, names, lent } = settings;
  const lender = lent && new Lender(lent);
  const ways = { patterns, privates, resolve: createResolve(names), lender };
  const proxy = createProxy({
    ...ways,
    interceptor: lent && new Interceptor({ ...ways, authority: lent.authority }),
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
