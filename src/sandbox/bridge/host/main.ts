import { createHash } from "node:crypto";
import { lstatSync, renameSync, rmSync, statSync } from "node:fs";
import { connect } from "node:net";
import { EGRESS_SOCKET, PRESENCE_PATH } from "../ingress.ts";
import { readHead } from "../readHead.ts";
import { createResolve } from "./dial.ts";
import { Interceptor } from "./interceptor.ts";
import { Lender } from "./lender.ts";
import { Presence } from "./presence.ts";
import { createProxy } from "./proxy.ts";
import { SETTINGS_VARIABLE, type HostSettings } from "./settings.ts";

const WATCH_MS = 2_000;

// Started in the sandbox's folder: all paths are relative, so neither their length nor the folders above matter.
await main();

async function main(): Promise<void> {
  const text = process.env[SETTINGS_VARIABLE] ?? "";
  const settings = JSON.parse(text) as HostSettings;
  const fingerprint = createHash("sha256").update(text).digest("hex");
  for (const signal of ["SIGHUP", "SIGINT"] as const) process.on(signal, () => {});
  becomeOwner();
  // Another one is at work already, and it was told the same.
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
  // The folder keeps others out. Set before and not by chmod after, whose path the agent could have swapped.
  process.umask(0);
  proxy.on("error", leave);
  proxy.on("connection", (socket) => presence.add(socket));
  proxy.listen(own, () => {
    const { ino } = lstatSync(own);
    // In one step: whoever starts at the same time ends up as the one or the other, never as half of it.
    renameSync(own, EGRESS_SOCKET);
    const watch = setInterval(() => {
      const found = lstatSync(EGRESS_SOCKET, { throwIfNoEntry: false });
      if (found === undefined) leave();
      if (found.ino === ino) return;
      // A successor has taken the place; what is open here goes on to its end.
      clearInterval(watch);
      presence.dismiss();
      proxy.close(leave);
    }, WATCH_MS);
  });
}

/** Root's rights are not needed to forward bytes: the sandbox's user is enough. */
function becomeOwner(): void {
  if (process.getuid?.() !== 0) return;
  const { uid, gid } = statSync(".");
  if (uid === 0) return;
  process.setgroups?.([]);
  process.setgid?.(gid);
  process.setuid?.(uid);
}

/** Asking counts as a guest, so the one who answers stays for the guest who is about to come. */
async function isServed(fingerprint: string): Promise<boolean> {
  const socket = connect(EGRESS_SOCKET);
  socket.write(`GET ${PRESENCE_PATH} HTTP/1.1\r\nHost: sluice\r\n\r\n`);
  return readHead(socket, { mark: "\r\n\r\n", limit: 1_024, timeoutMs: 5_000 })
    .then(
      (head) => head.includes(fingerprint),
      () => false,
    )
    .finally(() => socket.on("error", () => {}).destroy());
}

function leave(): never {
  process.exit(0);
}
