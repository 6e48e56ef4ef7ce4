import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { say } from "./setup.mjs";

/** A container engine of our own: private socket, private data, an image of this host's programs, no registry. */
export const IMAGE = "sluice/test:1";

const PREFIX = "sluice-docker-";
const PACKAGES = ["docker.io", "iptables", "iproute2"];
const PROGRAMS =
  "node sh bash basename dirname cat cmp diff ls mkdir rmdir rm mv cp ln touch chmod chown head tail sleep echo printf env id uname pwd true false test seq sort tr wc grep sed awk cut dd df du date find xargs ps kill setsid nohup stat readlink mkfifo tee timeout tar gzip git socat hostname unshare mount prlimit".split(
    " ",
  );

/** An existing engine, such as Podman's: SLUICE_TEST_ENGINE=/path/to/the.sock, with the image imported. */
const GIVEN = process.env.SLUICE_TEST_ENGINE;

/** Why no engine can be started here, or undefined where one can. */
export function whyNot() {
  if (GIVEN) return undefined;
  if (process.platform !== "linux") return "a container engine of our own needs Linux";
  if (process.getuid?.() !== 0) return "starting a container engine of our own needs root";
  if (find("dockerd") || find("apt-get")) return undefined;
  return "dockerd is not installed and there is no apt-get to install docker.io with";
}

/**
 * Installs the engine if it is missing, starts it, and imports the image. `stop()` removes everything. Where it is
 * `outlived`, containers go on without it.
 */
export async function start({ outlived = false } = {}) {
  const reason = whyNot();
  if (reason) throw new Error(reason);
  if (GIVEN) return { socketPath: GIVEN, image: IMAGE, hasNetwork: true, stop: async () => {} };
  install();
  sweep();
  const folder = mkdtempSync(join(tmpdir(), PREFIX));
  writeFileSync(join(folder, "owner"), String(process.pid));
  const bridge = makeBridge(folder);
  let daemon = startDaemon(folder, bridge, outlived);
  const engine = {
    socketPath: join(folder, "docker.sock"),
    /** Kills the engine and starts it again. Its containers go on. */
    restart: async () => {
      const ended = once(daemon, "exit");
      daemon.kill("SIGKILL");
      await ended;
      await endContainerd(folder);
      daemon = startDaemon(folder, bridge, outlived);
      await answers(engine.socketPath, daemon, folder);
    },
    image: IMAGE,
    hasNetwork: bridge !== undefined,
    stop: () => stop({ folder, daemon }),
  };
  try {
    await answers(engine.socketPath, daemon, folder);
    await importImage(engine.socketPath, folder);
    return engine;
  } catch (error) {
    await engine.stop();
    throw error;
  }
}

function install() {
  if (find("dockerd") && find("iptables") && find("ip")) return;
  say(`installing ${PACKAGES.join(", ")} for the container tests …`);
  const packages = ["install", "-y", "--no-install-recommends", ...PACKAGES];
  try {
    apt(...packages);
  } catch {
    // The package lists of a fresh machine are empty or old.
    apt("update");
    apt(...packages);
  }
}

function apt(...args) {
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  execFileSync("apt-get", ["-qq", ...args], { stdio: ["ignore", "ignore", "inherit"], env });
}

/** Removes the remains of killed runs. Their engines ended with them. */
function sweep() {
  for (const name of readdirSync(tmpdir()).filter((name) => name.startsWith(PREFIX))) {
    const folder = join(tmpdir(), name);
    const pids = ["owner", "dockerd.pid"].map((file) => join(folder, file)).filter(existsSync);
    if (!pids.some((file) => existsSync(`/proc/${readFileSync(file, "utf8").trim()}`))) clean(folder);
  }
}

/** A network bridge of our own, because the engine's would stay behind. Without the right to make one there is no network. */
function makeBridge(folder) {
  const name = bridgeOf(folder);
  const subnet = 16 + (process.pid % 200);
  try {
    execFileSync("ip", ["link", "add", "name", name, "type", "bridge"], { stdio: "ignore" });
    execFileSync("ip", ["addr", "add", `10.213.${subnet}.1/24`, "dev", name], { stdio: "ignore" });
    execFileSync("ip", ["link", "set", name, "up"], { stdio: "ignore" });
    return name;
  } catch {
    return undefined;
  }
}

function startDaemon(folder, bridge, outlived) {
  const out = openSync(join(folder, "dockerd.log"), "a");
  const argv = ["--data-root", join(folder, "data"), "--exec-root", join(folder, "exec")];
  argv.push("--pidfile", join(folder, "dockerd.pid"), "-H", `unix://${join(folder, "docker.sock")}`);
  argv.push(
    ...(outlived ? ["--live-restore"] : []),
    "--iptables=false",
    "--ip-forward=false",
    "--ip-masq=false",
    `--bridge=${bridge ?? "none"}`,
  );
  // If this process is killed, the engine ends with it.
  return spawn("setpriv", ["--pdeathsig", "TERM", "dockerd", ...argv], { stdio: ["ignore", out, out] });
}

/** The engine's helper ends with it, but later: an engine that starts meanwhile would wait for it in vain. */
async function endContainerd(folder) {
  const file = join(folder, "exec/containerd/containerd.pid");
  const pid = Number(existsSync(file) ? readFileSync(file, "utf8") : 0);
  if (!pid) return;
  const deadline = Date.now() + 10_000;
  while (existsSync(`/proc/${pid}`) && Date.now() < deadline) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // It has ended.
    }
    await sleep(25);
  }
  rmSync(file, { force: true });
}

async function answers(socketPath, daemon, folder) {
  for (const deadline = Date.now() + 30_000; Date.now() < deadline; await sleep(25)) {
    if (daemon.exitCode !== null || daemon.signalCode !== null) break;
    const status = await call(socketPath, "GET", "/_ping").catch(() => undefined);
    if (status === 200) return;
  }
  throw new Error(
    `dockerd did not start:\n${readFileSync(join(folder, "dockerd.log"), "utf8").slice(-2_000)}`,
  );
}

async function importImage(socketPath, folder) {
  const files = join(folder, "files");
  for (const [name, mode] of [
    ["tmp", 0o1777],
    ["var/tmp", 0o1777],
    ["root", 0o700],
    ["etc", 0o755],
    ["proc", 0o755],
    ["sys", 0o755],
    ["dev", 0o755],
    ["run", 0o755],
  ]) {
    mkdirSync(join(files, name), { recursive: true });
    execFileSync("chmod", [mode.toString(8), join(files, name)]);
  }
  writeFileSync(join(files, "etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n");
  writeFileSync(join(files, "etc/group"), "root:x:0:\n");
  const programs = PROGRAMS.map(find).filter((path) => path !== undefined);
  const paths = ["/bin/sh", ...programs, ...librariesOf(programs)].map((path) => path.slice(1));
  const tar = spawn("tar", ["-chf", "-", "-C", files, ".", "-C", "/", ...new Set(paths)], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  const [repo, tag] = IMAGE.split(":");
  const query = new URLSearchParams({ fromSrc: "-", repo, tag });
  const status = await call(socketPath, "POST", `/images/create?${query}`, tar.stdout);
  rmSync(files, { recursive: true, force: true });
  if (status !== 200) throw new Error(`the image could not be imported: HTTP ${status}`);
}

async function stop({ folder, daemon }) {
  const ended = daemon.exitCode === null && daemon.signalCode === null ? once(daemon, "exit") : undefined;
  daemon.kill("SIGTERM");
  const patience = setTimeout(() => daemon.kill("SIGKILL"), 20_000);
  await ended;
  clearTimeout(patience);
  clean(folder);
}

function clean(folder) {
  try {
    execFileSync("ip", ["link", "del", bridgeOf(folder)], { stdio: "ignore" });
  } catch {
    // There is none.
  }
  // The mounts of a killed engine, deepest first.
  const mounts = readFileSync("/proc/self/mounts", "utf8").split("\n");
  const ours = mounts.map((line) => line.split(" ")[1] ?? "").filter((path) => path.startsWith(`${folder}/`));
  for (const path of ours.toReversed()) execFileSync("umount", ["-l", path], { stdio: "ignore" });
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
}

function bridgeOf(folder) {
  return `slc${basename(folder).slice(-6).toLowerCase()}`;
}

/** The file of a program on the PATH, also where the shell has a builtin of that name. */
function find(program) {
  const folders = (process.env.PATH ?? "").split(":").concat("/usr/sbin", "/sbin");
  return folders.map((folder) => join(folder, program)).find((path) => existsSync(path));
}

function librariesOf(programs) {
  const found = new Set();
  for (const program of programs) {
    let text = "";
    try {
      text = execFileSync("ldd", [program], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
    } catch {
      // A script or a static program.
    }
    for (const [path] of text.matchAll(/\/\S+/g)) found.add(path);
  }
  return found;
}

function call(socketPath, method, path, body) {
  return new Promise((resolve, reject) => {
    const sent = request({ socketPath, method, path, agent: false }, (response) => {
      response.resume();
      response.on("end", () => resolve(response.statusCode));
    });
    sent.on("error", reject);
    if (body) body.pipe(sent);
    else sent.end();
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const engine = await start();
  process.stdout.write(`export DOCKER_HOST=unix://${engine.socketPath}\n`);
  say(`the image is ${IMAGE}; Ctrl-C ends the engine`);
  await Promise.race(["SIGINT", "SIGTERM", "SIGHUP"].map((signal) => once(process, signal)));
  await engine.stop();
}
