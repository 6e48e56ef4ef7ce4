import { spawn } from "node:child_process";
import { existsSync, lstatSync, readdirSync, statSync } from "node:fs";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";

export const ROOT = fileURLToPath(new URL("..", import.meta.url));

const BUILT = [
  "cli/start.cjs",
  "index",
  "agents/opencode-gateway",
  "agents/tools",
  "agents/egress-host",
  "agents/docker-exec",
  "agents/docker-launch",
  "agents/caretaker",
  "agents/scripted.cjs",
  "ui/index.html",
].map((name) => join(ROOT, "dist", /\.(?:cjs|html)$/.test(name) ? name : `${name}.js`));

/** Installs the packages of package-lock.json, unless they are installed already. */
export async function ensureInstalled() {
  const installed = modified(join(ROOT, "node_modules", ".package-lock.json"));
  if (installed >= modified(join(ROOT, "package-lock.json"))) return;
  // npm ci would first delete the packages behind the link, which belong to another checkout.
  if (lstatSync(join(ROOT, "node_modules"), { throwIfNoEntry: false })?.isSymbolicLink()) {
    throw new Error(
      "node_modules is a link and its packages are not those of package-lock.json: remove the link",
    );
  }
  say("installing the dependencies (npm ci) …");
  await must("npm", ["ci", "--no-audit", "--no-fund", "--loglevel=error"], { quiet: true });
}

/** Builds dist/, unless it is newer than all its sources. */
export async function ensureBuilt() {
  // openapi.json is written only when it changes, so its age says nothing.
  const built = existsSync(join(ROOT, "openapi.json")) ? oldest(BUILT) : 0;
  const sources = [...filesIn(join(ROOT, "src")), join(ROOT, "package.json"), join(ROOT, "tsdown.config.ts")];
  if (built > 0 && sources.every((path) => modified(path) <= built)) return;
  say("building (npm run build) …");
  await must("npm", ["run", "--silent", "build"], { quiet: true });
}

/** Installs bubblewrap, which isolates agents by default, where apt-get can without a question. Elsewhere `sluice doctor` says how. */
export async function ensureIsolation() {
  if (process.platform !== "linux" || findProgram("bwrap")) return;
  if (process.getuid?.() !== 0 || !findProgram("apt-get")) return;
  say("installing bubblewrap (apt-get) …");
  if (!(await installDebian(["bubblewrap"])))
    say("apt-get could not install bubblewrap, which isolates agents");
}

/** Debian's browser. Other systems have it on the PATH. */
const CHROMIUM = "/usr/bin/chromium";

/** Installs the browser for tests, where apt-get can without a question. Without it its tests are skipped with the reason. */
export async function ensureChromium() {
  if (existsSync(CHROMIUM) || findProgram("chromium")) return;
  if (process.getuid?.() !== 0 || !findProgram("apt-get")) return;
  say("installing chromium for the tests (apt-get) …");
  if (!(await installDebian(["chromium"]))) say("apt-get could not install chromium");
}

/** The terminal of the tests, the shells whose completion scripts they check, and the small programs of many images. */
const TERMINAL = ["tmux", "zsh", "fish", "busybox"];

/** Installs them, where apt-get can without a question. Without one its tests are skipped with the reason. */
export async function ensureTerminal() {
  const missing = TERMINAL.filter((name) => !findProgram(name));
  if (missing.length === 0 || process.getuid?.() !== 0 || !findProgram("apt-get")) return;
  say(`installing ${missing.join(", ")} for the tests (apt-get) …`);
  if (!(await installDebian(missing))) say(`apt-get could not install ${missing.join(", ")}`);
}

const POSTGRES = "/usr/lib/postgresql";

const SSHD = ["/usr/sbin/sshd", "/usr/local/sbin/sshd"];

/** The servers of the tests, which start them on their own. Without one its tests are skipped with the reason. */
export async function ensureServers() {
  const hasPostgres =
    existsSync(POSTGRES) &&
    readdirSync(POSTGRES).some((version) => existsSync(join(POSTGRES, version, "bin", "initdb")));
  const hasPooler = existsSync("/usr/sbin/pgbouncer");
  const hasSshd = SSHD.some((path) => existsSync(path));
  const missing = [
    ...(hasPostgres ? [] : ["postgresql"]),
    ...(hasPooler ? [] : ["pgbouncer"]),
    ...(hasSshd ? [] : ["openssh-server"]),
  ];
  if (missing.length === 0 || process.getuid?.() !== 0 || !findProgram("apt-get")) return;
  const names = missing.join(", ");
  // Their packages would start services, which nobody asked for.
  if (existsSync("/run/systemd/system"))
    return say(
      `the tests of ${names} are skipped: apt-get install ${missing.join(" ")} would start services here`,
    );
  say(`installing ${names} for the tests (apt-get) …`);
  if (!(await installDebian(missing))) say(`apt-get could not install ${names}`);
}

/** True when apt-get installed them. The package lists of a fresh machine are empty or old, so it may update them first. */
export async function installDebian(packages) {
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  const apt = async (...args) => (await run("apt-get", ["-qq", ...args], { quiet: true, env })).code === 0;
  const install = () => apt("install", "-y", "--no-install-recommends", ...packages);
  return (await install()) || ((await apt("update")) && (await install()));
}

export function findProgram(name) {
  const folders = (process.env.PATH ?? "").split(delimiter);
  return folders.map((folder) => join(folder, name)).find((path) => existsSync(path));
}

export function say(text) {
  process.stderr.write(`sluice: ${text}\n`);
}

/** Runs a child on our terminal and returns its end. Ctrl-C reaches it by itself; other signals are passed on. */
export function run(command, args, { quiet = false, env = process.env, cwd = ROOT } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      cwd,
      env,
      stdio: ["inherit", quiet ? "pipe" : "inherit", quiet ? "pipe" : "inherit"],
    });
    let output = "";
    child.stdout?.on("data", (chunk) => (output += chunk));
    child.stderr?.on("data", (chunk) => (output += chunk));
    const pass = (signal) => child.kill(signal);
    process.on("SIGINT", letChildDecide).on("SIGTERM", pass).on("SIGHUP", pass);
    child.on("error", reject);
    child.on("close", (code, signal) => {
      process.off("SIGINT", letChildDecide).off("SIGTERM", pass).off("SIGHUP", pass);
      resolve({ code, signal, output });
    });
  });
}

// A terminal sends Ctrl-C to the whole group: the child decides, and this process ends as it does.
function letChildDecide() {}

/** Ends this process as the child ended: with its exit code, or by its signal. */
export function endAs({ code, signal }) {
  if (signal) process.kill(process.pid, signal);
  process.exit(code ?? 1);
}

async function must(command, args, options) {
  const ended = await run(command, args, options);
  if (ended.code === 0) return;
  process.stderr.write(ended.output);
  say(`${command} ${args.join(" ")} failed.`);
  endAs(ended);
}

function filesIn(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name));
}

function oldest(paths) {
  return Math.min(...paths.map(modified));
}

function modified(path) {
  return existsSync(path) ? statSync(path).mtimeMs : 0;
}
