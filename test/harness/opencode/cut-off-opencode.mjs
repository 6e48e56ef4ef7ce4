#!/usr/bin/env node
// The real `opencode serve` behind a proxy. On SIGUSR2 the proxy cuts every connection, and refuses new ones for a while.
import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { createInterface } from "node:readline";

const { OPENCODE_REAL, OPENCODE_PID_FILE, OPENCODE_GAP_MS } = process.env;
const child = spawn(OPENCODE_REAL, process.argv.slice(2), { stdio: ["ignore", "pipe", "inherit"] });
const sockets = new Set();
let isCut = false;

createInterface({ input: child.stdout }).on("line", (line) => {
  const port = /listening on http:\/\/127\.0\.0\.1:(\d+)/.exec(line)?.[1];
  if (port === undefined) return;
  const proxy = createServer((near) => {
    if (isCut) return near.destroy();
    const far = connect(Number(port), "127.0.0.1");
    for (const [one, other] of [
      [near, far],
      [far, near],
    ]) {
      sockets.add(one);
      one.pipe(other);
      one.on("error", () => other.destroy());
      one.on("close", () => sockets.delete(one));
    }
  });
  proxy.listen(0, "127.0.0.1", () => {
    writeFileSync(OPENCODE_PID_FILE, String(process.pid));
    console.log(`opencode server listening on http://127.0.0.1:${proxy.address().port}`);
  });
});

process.on("SIGUSR2", () => {
  isCut = true;
  for (const socket of sockets) socket.destroy();
  setTimeout(() => {
    isCut = false;
  }, Number(OPENCODE_GAP_MS));
});
process.on("SIGTERM", () => child.kill("SIGTERM"));
child.on("exit", (code) => process.exit(code ?? 1));
