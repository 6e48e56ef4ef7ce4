import { execFileSync, spawn } from "node:child_process";
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import Docker from "dockerode";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type DockerEngine, start, whyNot } from "../../scripts/docker-engine.mjs";
import { ROOT } from "../../scripts/source-graph.mjs";

const TAG = "sluice-container-test";
const BASE = "node:22-bookworm-slim";
const REASON = whyNot();
/** Programs that apt would install, or that the base image has. */
const PROGRAMS = ["bwrap", "tini", "nsenter", "setpriv"].flatMap((name) => findProgram(name) ?? []);
const HAS_BWRAP = findProgram("bwrap") !== undefined;

/** The image of the Dockerfile, built by a real engine, and its server. */
describe.skipIf(REASON !== undefined)(
  `the container${REASON === undefined ? "" : ` (skipped: ${REASON})`}`,
  () => {
    let engine: DockerEngine;
    let docker: Docker;
    let container: Docker.Container;
    let isWhole = false;
    beforeAll(async () => {
      engine = await start();
      docker = new Docker({ socketPath: engine.socketPath });
      isWhole = await canPull(docker);
      await (isWhole ? buildWhole(docker) : buildServer(docker, engine.image));
      container = await docker.createContainer({
        Image: TAG,
        Cmd: isWhole || HAS_BWRAP ? [] : ["--sandbox", "local"],
        Env: ["SLUICE_TOKEN=token-of-the-test"],
        HostConfig: {
          NetworkMode: "none",
          CapDrop: ["ALL"],
          SecurityOpt: ["seccomp=unconfined", "apparmor=unconfined"],
          // What `--security-opt systempaths=unconfined` means for the engine.
          MaskedPaths: [],
          ReadonlyPaths: [],
        },
      });
      await container.start();
    }, 900_000);
    afterAll(async () => {
      await container?.remove({ force: true, v: true }).catch(() => {});
      await engine?.stop();
    }, 60_000);

    it("becomes healthy", { timeout: 60_000 }, async () => {
      let status = "";
      for (const end = Date.now() + 45_000; Date.now() < end && status !== "healthy"; await sleep(250))
        status = (await container.inspect()).State.Health?.Status ?? "";
      expect(status, await logsOf(container)).toBe("healthy");
    });

    it("runs as an ordinary user, with the token in a private file of its volume", async () => {
      expect(await exec(container, "id -u; stat -c '%a %u' /data /data/token; cat /data/token")).toBe(
        "10001\n700 10001\n600 10001\ntoken-of-the-test\n",
      );
      const { Mounts, Config } = await container.inspect();
      expect(Mounts.map(({ Destination }) => Destination)).toContain("/data");
      expect(Config.Cmd?.join(" ") ?? "").not.toContain("token");
      // The process that serves has neither the variable nor the argument.
      const visible =
        "for p in /proc/[0-9]*; do tr '\\0' '\\n' < $p/cmdline; done 2> /dev/null | grep -c [t]oken-of || true";
      expect((await exec(container, visible)).trim()).toBe("0");
    });

    it("serves a session and the documentation", async () => {
      const program = `
      const url = "http://127.0.0.1:7411";
      const headers = { authorization: "Bearer token-of-the-test", "content-type": "application/json" };
      const post = (path, body) => fetch(url + path, { method: "POST", headers, body: JSON.stringify(body) });
      console.log((await fetch(url + "/v1/sessions")).status, (await fetch(url + "/docs/")).status);
      console.log((await post("/v1/sessions/one", { agent: "scripted", permissionMode: "bypass" })).status);
      const turn = await post("/v1/sessions/one/messages/stream?extensions=true", { message: "hello" });
      console.log(/turn.ended.*completed/.test(await turn.text()));
      const { sandbox } = await (await fetch(url + "/v1/sessions/one", { headers })).json();
      console.log(sandbox);
    `;
      expect(await exec(container, `node --input-type=module -e '${program}'`)).toBe(
        `401 200\n200\ntrue\n${isWhole || HAS_BWRAP ? "bwrap" : "local"}\n`,
      );
    });

    it("stops at once and cleanly", { timeout: 40_000 }, async () => {
      await container.stop({ t: 30 });
      const { State } = await container.inspect();
      expect(State.ExitCode).toBe(0);
    });
  },
);

/** Whether the registry of the base image answers. */
async function canPull(docker: Docker): Promise<boolean> {
  try {
    const stream = await docker.pull(BASE);
    await new Promise((resolve, reject) =>
      docker.modem.followProgress(stream, (error) => (error ? reject(error) : resolve(undefined))),
    );
    return true;
  } catch {
    return false;
  }
}

async function buildWhole(docker: Docker): Promise<void> {
  const files = readFileSync(join(ROOT, ".dockerignore"), "utf8").match(/(?<=^!).*$/gm) ?? [];
  await build(docker, ROOT, ["Dockerfile", ".dockerignore", ...files], { networkmode: "host" });
}

/**
 * Without a registry: the last stage of the Dockerfile on an image of this host's programs. The stage that builds is
 * replaced by the build that the tests have made, and what apt would install comes from this host.
 */
async function buildServer(docker: Docker, base: string): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-image-"));
  try {
    const [, stage = ""] = readFileSync(join(ROOT, "Dockerfile"), "utf8").split(/^FROM .* AS server$/m);
    const own = stage
      .replace(/^RUN apt-get[\s\S]*?[^\\]\n/m, "")
      .replace(
        /groupadd[\s\S]*?useradd[^\\]*\\/,
        "echo 'sluice:x:10001:10001::/home/sluice:/bin/sh' >> /etc/passwd \\",
      )
      .replace("mkdir -p /data", "mkdir -p /data /home/sluice /usr/local/bin")
      .replace("chown sluice:sluice /data", "chown 10001:10001 /data /home/sluice")
      .replaceAll("COPY --from=build /src/", "COPY ")
      .replaceAll(" /src/", " ")
      .replace('"tini", "--", ', findProgram("tini") === undefined ? "" : '"tini", "--", ');
    writeFileSync(join(folder, "Dockerfile"), `FROM ${base}\nCOPY rootfs/ /\n${own}`);
    for (const path of ["package.json", "openapi.json", "LICENSE", "bin", "dist", "deploy"])
      cpSync(join(ROOT, path), join(folder, path), { recursive: true });
    for (const path of productionModules()) {
      mkdirSync(join(folder, path, ".."), { recursive: true });
      cpSync(join(ROOT, path), join(folder, path), { recursive: true });
    }
    copySystem(join(folder, "rootfs"), join(folder, "node_modules"));
    await build(docker, folder, ["."]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** This host's programs with their libraries, those of SQLite's binding, and `/bin/true` of a usual system. */
function copySystem(rootfs: string, modules: string): void {
  const bindings = readdirSync(join(modules, "@libsql"), { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith("-gnu/index.node"))
    .map((file) => join(modules, "@libsql", file));
  const libraries = [...PROGRAMS, ...bindings].flatMap((file) => {
    const text = execFileSync("ldd", [file], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
    return text.match(/\/\S+(?= \(0x)/g) ?? [];
  });
  for (const file of new Set([...PROGRAMS, ...libraries])) {
    mkdirSync(join(rootfs, file, ".."), { recursive: true });
    copyFileSync(file, join(rootfs, file));
  }
  mkdirSync(join(rootfs, "bin"), { recursive: true });
  copyFileSync(findProgram("true") ?? "/bin/true", join(rootfs, "bin", "true"));
}

function findProgram(name: string): string | undefined {
  const folders = ["/usr/bin", "/bin", "/usr/sbin", "/usr/local/bin"];
  return folders.map((folder) => join(folder, name)).find((path) => existsSync(path));
}

function productionModules(): string[] {
  const args = ["ls", "--omit=dev", "--all", "--parseable"];
  const text = execFileSync("npm", args, {
    cwd: ROOT,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"],
  });
  return text
    .trim()
    .split("\n")
    .slice(1)
    .map((path) => relative(ROOT, path));
}

async function build(docker: Docker, folder: string, files: string[], options = {}): Promise<void> {
  const tar = spawn("tar", ["-ch", "-C", folder, ...files], { stdio: ["ignore", "pipe", "inherit"] });
  const stream = await docker.buildImage(tar.stdout, { t: TAG, rm: true, ...options });
  await new Promise<void>((resolve, reject) =>
    docker.modem.followProgress(stream, (error, output: { error?: string; stream?: string }[]) => {
      const failed = output?.find((line) => line.error)?.error;
      if (error || failed)
        reject(error ?? new Error(`${failed}\n${output.map(({ stream: text }) => text).join("")}`));
      else resolve();
    }),
  );
}

async function exec(container: Docker.Container, command: string): Promise<string> {
  const made = await container.exec({ Cmd: ["sh", "-c", command], AttachStdout: true, AttachStderr: true });
  const stream = await made.start({});
  let said = "";
  await new Promise((resolve) => {
    const sink = { write: (chunk: Buffer) => ((said += chunk.toString()), true) };
    container.modem.demuxStream(stream, sink as NodeJS.WritableStream, sink as NodeJS.WritableStream);
    stream.on("end", resolve);
  });
  return said;
}

async function logsOf(container: Docker.Container): Promise<string> {
  return (await container.logs({ stdout: true, stderr: true })).toString();
}
