import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import postgres from "postgres";

const DEBIAN = "/usr/lib/postgresql";

export type RequiredPostgres =
  | { readonly bin: string; readonly reason?: undefined }
  | { readonly bin?: undefined; readonly reason: string };

/** The folder of PostgreSQL's programs, or the reason to skip. Under CI=true nothing is skipped: it throws. */
export function requirePostgres(): RequiredPostgres {
  const versions = existsSync(DEBIAN) ? readdirSync(DEBIAN).toSorted((a, b) => Number(b) - Number(a)) : [];
  const bin = versions
    .map((version) => join(DEBIAN, version, "bin"))
    .find((folder) => existsSync(join(folder, "initdb")));
  if (bin !== undefined) return { bin };
  const reason = "PostgreSQL is not installed; `npm test -- --all` installs it for the tests on Debian";
  if (process.env["CI"] === "true") throw new Error(`${reason}, and under CI=true it has to be there`);
  return { reason };
}

export interface TestPostgres {
  readonly port: number;
  /** The URL of a new, empty database. */
  createDatabase(): Promise<string>;
  urlOf(database: string, user?: string): string;
  /** A connection of the superuser, for the test itself. */
  admin(database?: string): postgres.Sql;
  /** Ends it with SIGKILL, as a power cut does. */
  kill(): Promise<void>;
  start(): Promise<void>;
  stop(): Promise<void>;
}

/** A real server of its own, in a folder that is removed with it. Durable: it waits for the disk. */
export async function startPostgres(
  bin: string,
  settings: readonly string[] = [],
  /** Makes a standby that follows this server. */
  { standbyOf }: { standbyOf?: TestPostgres } = {},
): Promise<TestPostgres> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-postgres-"));
  const data = join(folder, "data");
  const isRoot = process.getuid?.() === 0;
  // PostgreSQL refuses to run as root; Debian's package brings its user.
  const user = isRoot ? ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"] : [];
  if (isRoot) chownSync(folder, userId("-u"), userId("-g"));
  const argv = (program: string, ...args: string[]): [string, string[]] => {
    const [first = "", ...rest] = [...user, join(bin, program), ...args];
    return [first, rest];
  };
  const from = ["-h", "127.0.0.1", "-p", String(standbyOf?.port), "-U", "postgres"];
  const made = standbyOf
    ? argv("pg_basebackup", "-D", data, "-R", "-c", "fast", "--no-sync", ...from)
    : argv("initdb", "-D", data, "-U", "postgres", "-A", "trust", "--no-sync");
  execFileSync(...made, { stdio: "pipe", cwd: folder });
  const port = await freePort();
  let server: ChildProcess | undefined;
  const connections = new Map<string, postgres.Sql>();
  let count = 0;

  const urlOf = (database: string, as = "postgres"): string =>
    `postgres://${as}@127.0.0.1:${port}/${database}`;
  const admin = (database = "postgres"): postgres.Sql => {
    const known = connections.get(database);
    if (known) return known;
    const made = postgres(urlOf(database), { max: 1, onnotice: () => {} });
    connections.set(database, made);
    return made;
  };
  const start = async (): Promise<void> => {
    const given = ["-c", "listen_addresses=127.0.0.1", ...settings.flatMap((setting) => ["-c", setting])];
    server = spawn(...argv("postgres", "-D", data, "-p", String(port), "-k", folder, ...given), {
      stdio: "ignore",
      cwd: folder,
    });
    for (const deadline = Date.now() + 30_000; ; await sleep(50)) {
      try {
        execFileSync(join(bin, "pg_isready"), ["-h", "127.0.0.1", "-p", String(port)], { stdio: "ignore" });
        return;
      } catch (error) {
        if (server.exitCode !== null || Date.now() > deadline) throw error;
      }
    }
  };
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    if (!server || server.exitCode !== null || server.signalCode !== null) return;
    const ended = once(server, "exit");
    server.kill(signal);
    await ended;
  };
  await start();
  return {
    port,
    urlOf,
    admin,
    start,
    createDatabase: async () => {
      count += 1;
      await admin().unsafe(`CREATE DATABASE test_${count}`);
      return urlOf(`test_${count}`);
    },
    kill: () => end("SIGKILL"),
    stop: async () => {
      const closed = Promise.allSettled([...connections.values()].map((each) => each.end({ timeout: 0 })));
      await end("SIGQUIT");
      // A connection that is being made when its server ends is never reported as closed.
      await Promise.race([closed, sleep(1_000, undefined, { ref: false })]);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function userId(flag: "-u" | "-g"): number {
  return Number(execFileSync("id", [flag, "postgres"], { encoding: "utf8" }));
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  return typeof address === "object" && address ? address.port : 0;
}
