import { chmod, mkdir, readdir, writeFile } from "node:fs/promises";
import { createServer, type RequestListener, type Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { whyNot } from "../../scripts/docker-engine.mjs";
import type { SluiceEvent } from "../../src/contract/index.ts";
import { createAuthority, issueCertificate } from "../../src/sandbox/bridge/certificate.ts";
import { createDockerProvider } from "../../src/sandbox/docker/index.ts";
import type { Sandbox } from "../../src/sandbox/port.ts";
import { sandboxTestkit } from "../../src/sandbox/testkit.ts";
import { createSpool, type Spool } from "../../src/spool/index.ts";
import * as support from "../support/engine.ts";
import { expectLawful } from "../support/laws.ts";
import { endProgram, findInProc, openBench, type DockerBench } from "./dockerBench.ts";
import { DESK_TOKEN, toDesk } from "./lendingDesk.ts";
import { waitFor } from "./workbench.ts";

const reason = whyNot();
if (reason !== undefined && process.env["CI"] === "true") throw new Error(`no container engine: ${reason}`);
if (reason !== undefined) console.warn(`The docker sandbox is not tested: ${reason}.`);
const describeDocker = describe.skipIf(reason !== undefined);

let bench: DockerBench;
beforeAll(async () => {
  if (reason === undefined) bench = await openBench();
}, 180_000);
afterEach(() => bench?.clear());
afterAll(async () => {
  const left = await bench?.containers();
  await bench?.stop();
  expect(left ?? []).toEqual([]);
});

sandboxTestkit({ name: "docker", create: () => bench.makeSubject(), describe: describeDocker, it });

describeDocker("the docker provider", () => {
  it("says which engine answers, and what helps where none does", async () => {
    const options = await bench.makeOptions();
    expect(await createDockerProvider(options).version()).toMatch(/^(Docker|Podman) \d/);
    const nobody = createDockerProvider({ ...options, socketPath: join(dirname(options.root), "no.sock") });
    expect(await nobody.detect()).toMatchObject({
      available: false,
      reason: expect.stringContaining("cannot be reached"),
      remedy: "sudo apt-get install docker.io",
    });
    const lacking = createDockerProvider({ ...options, image: "nobody/nothing:1" });
    expect(await lacking.detect()).toMatchObject({
      available: false,
      remedy: "docker pull nobody/nothing:1",
    });
    await expect(lacking.check({})).rejects.toMatchObject({ code: "unsupported_sandbox" });
    await lacking.check({ image: options.image! });
    await expect(nobody.create({ id: "x" })).rejects.toMatchObject({ code: "unsupported_sandbox" });
  });

  it("finds the engine by DOCKER_HOST, and refuses one on another machine", async () => {
    const { root } = await bench.makeOptions();
    process.env["DOCKER_HOST"] = `unix://${bench.engine.socketPath}`;
    const { image } = bench.engine;
    expect(await createDockerProvider({ root, image }).detect()).toEqual({ available: true });
    process.env["DOCKER_HOST"] = "tcp://192.0.2.1:2375";
    expect((await createDockerProvider({ root }).detect()).reason).toContain("out of reach");
    delete process.env["DOCKER_HOST"];
  });

  it("never pulls an image", async () => {
    const provider = createDockerProvider(await bench.makeOptions());
    await expect(provider.create({ id: "x", image: "nobody/nothing:1" })).rejects.toThrow(
      "docker pull nobody/nothing:1",
    );
  });

  it("makes a new container where the old one would keep what it was made with", async () => {
    const { provider, sandbox } = await bench.makeSandbox({ limits: { memoryBytes: 64 * 1024 * 1024 } });
    await sandbox.exec("echo kept > file");
    const [before] = await bench.containers();
    expect(before?.Labels).toMatchObject({ "sluice.sandbox": "sbx_test", "sluice.key": expect.any(String) });
    const again = await provider.create({ id: "sbx_test", limits: { memoryBytes: 96 * 1024 * 1024 } });
    expect((await again.exec("cat file")).stdout).toBe("kept\n");
    const [after] = await bench.containers();
    expect(after?.Id).not.toBe(before?.Id);
    const { HostConfig } = await bench.docker.getContainer(after?.Id ?? "").inspect();
    expect(HostConfig).toMatchObject({ Memory: 96 * 1024 * 1024, PidsLimit: 4_096, Init: true });
  });

  it("leaves nothing behind but the directory that it was given", async () => {
    const directory = join(await bench.makeFolder(), "project");
    await mkdir(directory);
    const { options, provider, sandbox } = await bench.makeSandbox({ directory });
    expect((await sandbox.exec("pwd; id -u; echo hi > made; ls /mnt/session/outputs")).stdout).toBe(
      "/home/user/workspace\n0\n",
    );
    expect(await readdir(directory)).toEqual(["made", "output"]);
    await sandbox.destroy();
    expect(await readdir(directory)).toEqual(["made"]);
    expect(await readdir(options.root)).toEqual([]);
    expect(await provider.connect(sandbox.id)).toBeUndefined();
    expect(await bench.containers()).toEqual([]);
  });
});

describeDocker("a process in a container", () => {
  it("speaks through the spool, both ways, and ends with its own status", async () => {
    const { sandbox } = await bench.makeSandbox();
    const text = "while read -r x; do echo got $x; done; echo no >&2; exit 7";
    const spool = await spawnScript(sandbox, text);
    await spool.send({ id: "1", at: 0, text: "one\n" });
    await spool.send({ id: "2", at: 0, text: `${"x".repeat(300_000)}\n` });
    await spool.closeInput();
    const { lines, exit } = await readToEnd(spool);
    expect(lines).toEqual(["got one", `got ${"x".repeat(300_000)}`]);
    expect(exit).toEqual({ code: 7 });
    expect(await spool.stderr()).toMatchObject({ head: "no" });
  });

  it("is heard to its last word, also where something that it left behind holds its output open", async () => {
    const { sandbox } = await bench.makeSandbox();
    // In one write, just before its end.
    const burst = "x=$(head -c 300000 /dev/zero | tr '\\0' x); echo $x; exit 3";
    const heard = Array.from({ length: 12 }, async (_, index) => {
      const spool = await spawnScript(sandbox, `${index === 0 ? "sleep 600 &" : ""} ${burst}`);
      const { lines, exit } = await readToEnd(spool);
      return [lines.map((line) => line.length), exit];
    });
    expect(await Promise.all(heard)).toEqual(heard.map(() => [[300_000], { code: 3 }]));
  });

  it("is signalled by a restarted server, with its whole group", async () => {
    const { options, sandbox } = await bench.makeSandbox();
    const spool = await spawnScript(sandbox, "sleep 600 & touch begun; wait");
    await waitFor(() => sandbox.files.stat("begun").catch(() => undefined));
    const again = (await createDockerProvider(options).connect(sandbox.id))!;
    await again.signal((await spool.pid())!, "SIGKILL");
    expect((await readToEnd(spool)).exit).toEqual({ signal: "SIGKILL" });
    expect((await again.exec("ps -eo args | grep -c '[s]leep 600'")).stdout).toBe("0\n");
    expect(await bench.containers()).toHaveLength(1);
  });

  it("has its secrets from the engine's API, and in no process list", async () => {
    const { options, sandbox } = await bench.makeSandbox({ env: { FROM_SPEC: "s3cret-spec" } });
    const spool = await spawnScript(sandbox, "env; touch begun; cat > /dev/null", {
      FROM_LAUNCH: "s3cret-launch",
      // Would be run by our own programs on this side, were it ever in their environment.
      NODE_OPTIONS: "--require=/home/user/workspace/evil.js",
    });
    await waitFor(() => sandbox.files.stat("begun").catch(() => undefined));
    expect(await findInProc("cmdline", "s3cret")).toEqual([]);
    const environments = await findInProc("environ", "s3cret");
    expect(environments.length).toBeGreaterThan(0);
    for (const found of environments) expect(found).toContain("HOME=/home/user\0");
    const [container] = await bench.containers();
    const described = await bench.docker.getContainer(container?.Id ?? "").inspect();
    expect(JSON.stringify(described)).not.toContain("s3cret");
    const names = await readdir(join(options.root, sandbox.id, "processes"));
    expect(names.filter((name) => name.endsWith(".ticket"))).toEqual([]);
    await spool.closeInput();
    const { lines } = await readToEnd(spool);
    expect(lines).toContain("FROM_SPEC=s3cret-spec");
    expect(lines).toContain("FROM_LAUNCH=s3cret-launch");
  });

  it("sees what it needs of the host, read-only, at the same path", async () => {
    const { sandbox } = await bench.makeSandbox();
    const folder = await bench.makeFolder();
    const need = join(folder, "tool.sh");
    await writeFile(need, "#!/bin/sh\necho tool; echo x >> $0\n");
    await chmod(need, 0o777);
    await writeFile(join(folder, "other"), "");
    await sandbox.exec("sleep 600 > /dev/null 2>&1 &");
    const launch = { argv: [need], env: {}, needs: [process.execPath, need] };
    const spool = await createSpool(join(folder, "spool"));
    const spawned = sandbox.spawn({ launch, wrapper: spool.wrapper });
    await expect(spawned).rejects.toMatchObject({ code: "session_busy" });
    await sandbox.killAll();
    await sandbox.spawn({ launch, wrapper: spool.wrapper });
    expect((await readToEnd(spool)).lines).toEqual(["tool"]);
    expect((await spool.stderr()).head).toContain("Read-only file system");
    expect((await sandbox.exec(`ls ${folder}`)).stdout).toBe("tool.sh\n");
    // The image's own is found by name where the host has it elsewhere.
    const elsewhere = { argv: ["/opt/only/on/the/host/true"], env: {} };
    await sandbox.spawn({ launch: elsewhere, wrapper: [] });
  });

  it("is not started while the sandbox is paused", async () => {
    const { sandbox } = await bench.makeSandbox();
    await sandbox.exec("true");
    await sandbox.pause!();
    await expect(sandbox.exec("true")).rejects.toThrow("Resume it first");
    await sandbox.resume!();
    expect((await sandbox.exec("echo fine")).stdout).toBe("fine\n");
  });
});

describeDocker("a container", () => {
  it("is an unprivileged user's, without capabilities, host files or network", async () => {
    const { provider, sandbox } = await bench.makeSandbox({ network: { mode: "none" } });
    // Podman's own list of system calls lets namespaces be made, for what they are worth without capabilities.
    const isPodman = (await provider.version()).startsWith("Podman");
    await withServers(["host"], async ([port]) => {
      const { stdout } = await sandbox.exec(`
grep -E '^(Uid|CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status | tr '\\t' ' '
tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '
touch /etc/x 2> /dev/null || echo etc
ls ${import.meta.dirname} 2> /dev/null || echo project
cat ${bench.engine.socketPath} 2> /dev/null || echo socket
unshare -r true 2> /dev/null || echo unshare
mount -t tmpfs none /mnt 2> /dev/null || echo mount
${get(port)}`);
      const uid = sandbox.owner!.uid;
      expect(stdout.trim().split("\n")).toEqual([
        `Uid: ${uid} ${uid} ${uid} ${uid}`,
        "CapEff: 0000000000000000",
        // CAP_SETUID and CAP_SETGID, which a user without privileges can never get.
        "CapBnd: 00000000000000c0",
        "NoNewPrivs: 1",
        "Seccomp: 2",
        "lo",
        "etc",
        "project",
        "socket",
        ...(isPodman ? [] : ["unshare"]),
        "mount",
        "closed",
      ]);
    });
  });

  it("lets through what is allowed, and nothing else", async () => {
    await withServers(["one", "two"], async ([first, second]) => {
      const { sandbox } = await bench.makeSandbox({
        id: `sbx_allow_${first}`,
        network: { mode: "allow", hosts: [`127.0.0.1:${first}`] },
      });
      const both = `${get(first)}; ${get(second)}`;
      expect((await sandbox.exec(both)).stdout).toBe("one\nclosed\n");
      // A harness may need more; what is not at work can be made anew for it.
      const spool = await spawnScript(sandbox, both, {}, [`127.0.0.1:${second}`]);
      expect((await readToEnd(spool)).lines).toEqual(["one", "two"]);
      await sandbox.killAll();
      expect(await support.processesWith(sandbox.id)).toEqual([]);
    });
  });

  it("lends secrets to requests that may carry them, by https too", async () => {
    const authority = createAuthority();
    const file = join(await bench.makeFolder(), "authority.pem");
    await writeFile(file, authority.cert);
    const before = process.env["NODE_EXTRA_CA_CERTS"];
    process.env["NODE_EXTRA_CA_CERTS"] = file;
    const secret = { placeholder: "SLUICE_SECRET_1", value: "lent-value-71f0", header: true, body: false };
    const seen: unknown[] = [];
    const answer: RequestListener = (request, response) =>
      response.end(String(seen.push(request.headers["x-key"])));
    const servers = [
      createServer(toDesk(() => [{ ...secret, hosts: ["127.0.0.1"] }])),
      createTlsServer(issueCertificate(authority, "127.0.0.1"), answer),
    ];
    try {
      for (const server of servers) {
        server.listen(0, "127.0.0.1");
        await waitFor(async () => server.listening);
      }
      const [desk, port] = servers.map((server) => (server.address() as AddressInfo).port);
      const network = { mode: "allow", hosts: [`127.0.0.1:${port}`] } as const;
      const { sandbox } = await bench.makeSandbox({ id: `sbx_lend_${port}`, network });
      expect(sandbox.lends).toBe(true);
      // Made before anything was lent to it.
      await sandbox.exec("true");
      const headers = "{ headers: { 'x-key': process.env.KEY } }";
      const ask = `fetch('https://127.0.0.1:${port}', ${headers}).then((answer) => answer.text())`;
      const spool = await createSpool(join(await bench.makeFolder(), "spool"));
      const lending = { url: `http://127.0.0.1:${desk}/s`, token: DESK_TOKEN };
      const argv = ["node", "-e", `${ask}.then(console.log, console.log)`];
      const launch = { argv, env: { KEY: secret.placeholder }, lending };
      await sandbox.spawn({ launch, wrapper: spool.wrapper });
      expect((await readToEnd(spool)).lines).toEqual(["1"]);
      expect(seen).toEqual([secret.value]);
      await sandbox.killAll();
    } finally {
      for (const server of servers) server.close();
      if (before === undefined) delete process.env["NODE_EXTRA_CA_CERTS"];
      else process.env["NODE_EXTRA_CA_CERTS"] = before;
    }
  });

  it("has the engine's network only where the full one is asked for", async () => {
    if (!bench.engine.hasNetwork) return;
    const { sandbox } = await bench.makeSandbox({ network: { mode: "full" } });
    expect((await sandbox.exec("grep -c eth0 /proc/net/dev")).stdout).toBe("1\n");
  });

  it("shows nothing of the other sandboxes in a workspace that holds them", async () => {
    const directory = await bench.makeFolder();
    const options = await bench.makeOptions({ root: join(directory, "data/sandboxes") });
    const provider = createDockerProvider({ ...options, hide: [join(directory, "data")] });
    const victim = await provider.create({ id: "victim" });
    const spy = await provider.create({ id: "spy", directory });
    await victim.files.write("secret", "x");
    expect((await spy.exec("find . /workspace -name secret; ls -A data /workspace/data")).stdout).toBe(
      "/workspace/data:\n\ndata:\n",
    );
    await expect(spy.files.read("data/sandboxes/victim/workspace/secret")).rejects.toMatchObject({
      code: "permission_denied",
    });
    await spy.destroy();
    await victim.destroy();
  });
});

describeDocker("an engine with containers", () => {
  it("runs a turn of the scripted agent inside, and leaves nobody there at its end", async () => {
    const provider = createDockerProvider(await bench.makeOptions());
    const test = await support.openEngine({ providers: [provider], defaultSandbox: "docker" });
    try {
      await test.engine.create("one", { agent: "scripted" });
      const steps = [{ shell: "hostname; pwd" }, { write: { path: "a.txt", content: "x" } }, { say: "done" }];
      const ended = await support.runTurn(test, "one", support.script(...steps));
      expect(ended.data).toMatchObject({ status: "completed" });
      const events = await support.readAll(test.log, "one");
      expectLawful(events);
      expect(JSON.stringify(events)).toContain("sandbox\\n/home/user/workspace");
      const [ready] = support.ofType(events, "sandbox.ready");
      expect(ready?.data).toMatchObject({ provider: "docker", isolated: true });
      const files = await test.engine.files("one");
      expect(Buffer.from(await files.read("a.txt")).toString()).toBe("x");
      expect(await states()).toEqual(["running"]);
      await test.engine.terminate("one");
      expect(await states()).toEqual(["exited"]);
      expect(await support.processesWith(sandboxOf(events))).toEqual([]);
    } finally {
      await test.close();
    }
    expect(await states()).toEqual([]);
  });

  it("is killed, and the next one finds the agent still at work", async () => {
    const options = await bench.makeOptions();
    const providers = [createDockerProvider(options)];
    const test = await support.openEngine({ providers, defaultSandbox: "docker" });
    try {
      const slow = { shell: "for i in $(seq 1 60); do echo $i; sleep 0.03; done" };
      const prompt = support.script(slow, { say: "the end" });
      const args = [test.folder, JSON.stringify(options), prompt];
      await endProgram(await bench.startProgram("engine", args, "item.delta"));
      expect(await states()).toEqual(["running"]);
      await test.restart();
      await support.waitFor(test.log, "killed", "turn.ended");
      const events = await support.readAll(test.log, "killed");
      expectLawful(events);
      expect(support.ofType(events, "process.started")).toHaveLength(1);
      expect(support.ofType(events, "turn.ended")[0]?.data).toMatchObject({ status: "completed" });
      expect(JSON.stringify(events)).toContain("the end");
      await test.engine.terminate("killed");
      expect(await support.processesWith(sandboxOf(events))).toEqual([]);
    } finally {
      await test.close();
    }
  });
});

async function states(): Promise<string[]> {
  return (await bench.containers()).map(({ State }) => State);
}

function sandboxOf(events: readonly SluiceEvent[]): string {
  return support.ofType(events, "sandbox.boot")[0]?.data.sandbox_id ?? "none";
}

async function spawnScript(
  sandbox: Sandbox,
  text: string,
  env: Record<string, string> = {},
  hosts: readonly string[] = [],
): Promise<Spool> {
  const spool = await createSpool(join(await bench.makeFolder(), "spool"));
  await sandbox.spawn({ launch: { argv: ["sh", "-c", text], env, hosts }, wrapper: spool.wrapper });
  return spool;
}

async function readToEnd(spool: Spool): Promise<{ lines: string[]; exit: unknown }> {
  const lines: string[] = [];
  let exit: unknown;
  for await (const batch of spool.follow({ from: 0, signal: AbortSignal.timeout(20_000) })) {
    lines.push(...batch.lines.map((line) => line.text));
    exit = batch.exit;
  }
  return { lines, exit };
}

/** Servers on this host's loopback, each with one word to say. */
async function withServers(
  words: readonly string[],
  work: (ports: number[]) => Promise<void>,
): Promise<void> {
  const servers: Server[] = [];
  try {
    for (const word of words) {
      const server = createServer((_request, response) => response.end(word)).listen(0, "127.0.0.1");
      servers.push(server);
      await waitFor(async () => server.listening);
    }
    await work(servers.map((server) => (server.address() as AddressInfo).port));
  } finally {
    for (const server of servers) server.close();
  }
}

function get(port: number | undefined): string {
  const answer = "then((answer) => answer.text()).then(console.log, () => console.log('closed'))";
  return `node -e "fetch('http://127.0.0.1:${port}').${answer}"`;
}
