import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { userInfo } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { freePort } from "../../support/server.ts";
import { makeFolder, onCleanup } from "./workbench.ts";

const SSHD = ["/usr/sbin/sshd", "/usr/local/sbin/sshd"].find((path) => existsSync(path));

/** Why no real sshd can be started here; CI has one. */
export const NO_SSHD = SSHD === undefined ? "openssh-server is not installed" : undefined;
if (NO_SSHD !== undefined && process.env["CI"] === "true") throw new Error(NO_SSHD);

/** A real sshd on loopback, with an account whose home is a folder of the test. */
export interface Sshd {
  readonly url: string;
  readonly home: string;
  /** The settings of keys and known hosts. */
  readonly env: Record<string, string>;
  readonly folder: string;
  /** Cuts every connection. */
  cut(): void;
  /** Refuses new connections, and lets none of the old ones through. */
  down(isDown: boolean): void;
  /** The pids of the runners of this account. */
  runners(): number[];
}

/** `variables` are those of the account. */
export async function startSshd(variables: Record<string, string> = {}): Promise<Sshd> {
  const folder = await makeFolder();
  const home = join(folder, "home");
  await mkdir(join(home, ".ssh"), { recursive: true, mode: 0o700 });
  for (const name of ["host_key", "user_key"])
    execFileSync("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", join(folder, name)]);
  const { username } = userInfo();
  const inner = await freePort();
  const config = [
    `Port ${inner}`,
    "ListenAddress 127.0.0.1",
    `HostKey ${join(folder, "host_key")}`,
    `PidFile ${join(folder, "sshd.pid")}`,
    `AuthorizedKeysFile ${join(folder, "user_key.pub")}`,
    "StrictModes no",
    "UsePAM no",
    "PasswordAuthentication no",
    "KbdInteractiveAuthentication no",
    "PermitRootLogin prohibit-password",
    `SetEnv ${["HOME=" + home, ...Object.entries(variables).map((pair) => pair.join("="))].join(" ")}`,
  ];
  await writeFile(join(folder, "sshd_config"), `${config.join("\n")}\n`);
  if (process.getuid?.() === 0) await mkdir("/run/sshd", { recursive: true, mode: 0o755 });
  const daemon = spawn(SSHD as string, ["-D", "-e", "-f", join(folder, "sshd_config")], { stdio: "ignore" });
  onCleanup(async () => {
    const exited = once(daemon, "exit");
    daemon.kill("SIGKILL");
    await exited;
  });
  const proxy = await startProxy(inner);
  const [type, key] = (await readFile(join(folder, "host_key.pub"), "utf8")).split(" ");
  await writeFile(join(folder, "known_hosts"), `[127.0.0.1]:${proxy.port} ${type} ${key}\n`);
  const runners = (): number[] => findRunners(home);
  onCleanup(async () => {
    for (const pid of runners()) process.kill(pid, "SIGKILL");
  });
  return {
    url: `ssh://${username}@127.0.0.1:${proxy.port}`,
    home,
    folder,
    env: {
      SLUICE_SSH_KEY: join(folder, "user_key"),
      SLUICE_SSH_KNOWN_HOSTS: join(folder, "known_hosts"),
    },
    cut: proxy.cut,
    down: proxy.down,
    runners,
  };
}

/** A connection that can be cut stands before the daemon. */
async function startProxy(
  inner: number,
): Promise<{ port: number; cut: () => void; down: (isDown: boolean) => void }> {
  const sockets = new Set<Socket>();
  let isDown = false;
  const keep = (socket: Socket): Socket => {
    sockets.add(socket);
    return socket.on("close", () => sockets.delete(socket)).on("error", () => {});
  };
  const server = createServer((near) => {
    keep(near);
    if (isDown) return near.destroy();
    const far = keep(connect({ host: "127.0.0.1", port: inner }));
    near.pipe(far).pipe(near);
    near.on("close", () => far.destroy());
    far.on("close", () => near.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const cut = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  onCleanup(async () => {
    cut();
    server.close();
  });
  for (let tries = 0; tries < 200 && !(await canConnect(inner)); tries += 1) await sleep(20);
  const down = (value: boolean): void => {
    isDown = value;
    if (value) cut();
  };
  return { port: (server.address() as AddressInfo).port, cut, down };
}

function canConnect(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: "127.0.0.1", port }, () => (socket.destroy(), resolve(true)));
    socket.on("error", () => resolve(false));
  });
}

/** Only the runner's command line has this home. */
function findRunners(home: string): number[] {
  const listed = execFileSync("ps", ["-eww", "-o", "pid=,args="]).toString().split("\n");
  return listed
    .filter((line) => line.includes(`${home}/.sluice/runner/bin/`) && line.includes(".cjs serve "))
    .map((line) => Number(line.trim().split(" ")[0]));
}
