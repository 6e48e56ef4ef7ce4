import { lstatSync, renameSync, rmSync, statSync } from "node:fs";
import { connect } from "node:net";
import { EGRESS_SOCKET, PRESENCE_PATH } from "../ingress.ts";
import { readHead } from "../readHead.ts";
import { createResolve } from "./dial.ts";
import { Presence } from "./presence.ts";
import { createProxy } from "./proxy.ts";
import { SETTINGS_VARIABLE, type HostSettings } from "./settings.ts";

// Started in the sandbox's folder: all paths are relative, so neither their length nor the folders above matter.
await main();

async function main(): Promise<void> {
  const settings = JSON.parse(process.env[SETTINGS_VARIABLE] ?? "") as HostSettings;
  for (const signal of ["SIGHUP", "SIGINT"] as const) process.on(signal, () => {});
  becomeOwner();
  // Another one is at work already.
  if (await isServed()) return;
  const presence = new Presence(settings.graceMs, leave);
  const proxy = createProxy({
    patterns: settings.patterns,
    resolve: createResolve(settings.names),
    onGuest: (guest) => presence.add(guest),
  });
  const own = `egress.${process.pid}.tmp`;
  rmSync(own, { force: true });
  // The folder keeps others out. Set before and not by chmod after, whose path the agent could have swapped.
  process.umask(0);
  proxy.listen(own, () => {
    const { ino } = lstatSync(own);
    // In one step: whoever starts at the same time ends up as the one or the other, never as half of it.
    renameSync(own, EGRESS_SOCKET);
    setInterval(() => {
      if (lstatSync(EGRESS_SOCKET, { throwIfNoEntry: false })?.ino !== ino) leave();
    }, 2_000);
  });
  proxy.on("error", leave);
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
async function isServed(): Promise<boolean> {
  const socket = connect(EGRESS_SOCKET);
  socket.write(`GET ${PRESENCE_PATH} HTTP/1.1\r\nHost: sluice\r\n\r\n`);
  return readHead(socket, { mark: "\r\n\r\n", limit: 1_024, timeoutMs: 5_000 })
    .then(
      (head) => head.includes(" 200 "),
      () => false,
    )
    .finally(() => socket.on("error", () => {}).destroy());
}

function leave(): never {
  process.exit(0);
}
