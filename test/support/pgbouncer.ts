import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { freePort } from "./server.ts";

const PROGRAM = "/usr/sbin/pgbouncer";

/** Why there is no pooler; undefined where there is one. Under CI=true nothing is skipped: it throws. */
export function missingPooler(): string | undefined {
  if (existsSync(PROGRAM)) return undefined;
  const reason = "PgBouncer is not installed; `npm test -- --all` installs it for the tests on Debian";
  if (process.env["CI"] === "true") throw new Error(`${reason}, and under CI=true it has to be there`);
  return reason;
}

export interface TestPooler {
  /** The URL of the same database behind the pooler. */
  through(url: string): string;
  stop(): Promise<void>;
}

/** A real PgBouncer in transaction mode in front of a server of the tests. */
export async function startPooler(to: { readonly port: number }): Promise<TestPooler> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-pgbouncer-"));
  const port = await freePort();
  const config = join(folder, "pgbouncer.ini");
  writeFileSync(
    config,
    `[databases]
* = host=127.0.0.1 port=${to.port} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
max_client_conn = 500
default_pool_size = 20
`,
  );
  chmodSync(folder, 0o755);
  // It refuses to run as root.
  const isRoot = process.getuid?.() === 0;
  const user = isRoot ? ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"] : [];
  const [program = PROGRAM, ...before] = [...user, PROGRAM];
  const child = spawn(program, [...before, "-q", config], { stdio: "ignore" });
  const ended = once(child, "exit");
  for (const deadline = Date.now() + 30_000; !(await isOpen(port)); await sleep(50))
    if (child.exitCode !== null || Date.now() > deadline) throw new Error("PgBouncer does not start");
  return {
    through: (url) => {
      const changed = new URL(url);
      changed.port = String(port);
      return changed.href;
    },
    async stop() {
      child.kill("SIGKILL");
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function isOpen(port: number): Promise<boolean> {
  const socket = connect(port, "127.0.0.1");
  try {
    await once(socket, "connect");
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
