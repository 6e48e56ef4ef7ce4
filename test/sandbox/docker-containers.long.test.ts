import { writeFile } from "node:fs/promises";
import { createServer, type RequestListener, type Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect, it } from "vitest";
import type { SluiceEvent } from "../../src/contract/index.ts";
import { createDockerProvider } from "../../src/sandbox/docker/provider.ts";
import { createAuthority, issueCertificate } from "../../src/sandbox/egress/certificate.ts";
import { createSpool } from "../../src/spool/index.ts";
import * as support from "../support/engine.ts";
import { expectLawful } from "../support/laws.ts";
import { describeDocker, endProgram, readToEnd, useDockerBench } from "./docker-bench.ts";
import { DESK_TOKEN, toDesk } from "./egress/lending-desk.ts";
import { waitFor } from "./workbench.ts";

const bench = useDockerBench();

describeDocker("a container", () => {
  it("is an unprivileged user's, without capabilities, host files or network", async () => {
    const { provider, sandbox } = await bench().makeSandbox({ network: { mode: "none" } });
    // Podman's own list of system calls allows new namespaces, which are harmless without capabilities.
    const isPodman = (await provider.version()).startsWith("Podman");
    await withServers(["host"], async ([port]) => {
      const { stdout } = await sandbox.exec(`
grep -E '^(Uid|CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status | tr '\\t' ' '
tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '
touch /etc/x 2> /dev/null || echo etc
ls ${import.meta.dirname} 2> /dev/null || echo project
cat ${bench().engine.socketPath} 2> /dev/null || echo socket
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

  it("lets only allowed requests through", async () => {
    await withServers(["one", "two"], async ([first, second]) => {
      const { sandbox } = await bench().makeSandbox({
        id: `sbx_allow_${first}`,
        network: { mode: "allow", hosts: [`127.0.0.1:${first}`] },
      });
      const both = `${get(first)}; ${get(second)}`;
      expect((await sandbox.exec(both)).stdout).toBe("one\nclosed\n");
      // A harness may need more; an idle container can be made anew for it.
      const spool = await bench().spawnScript(sandbox, both, {}, [`127.0.0.1:${second}`]);
      expect((await readToEnd(spool)).lines).toEqual(["one", "two"]);
      await sandbox.killAll();
      expect(await support.processesWith(sandbox.id)).toEqual([]);
    });
  });

  it("lends secrets to requests that may carry them, by https too", async () => {
    const authority = createAuthority();
    const file = join(await bench().makeFolder(), "authority.pem");
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
      const { sandbox } = await bench().makeSandbox({ id: `sbx_lend_${port}`, network });
      expect(sandbox.lends).toBe(true);
      // Made before anything was lent to it.
      await sandbox.exec("true");
      const headers = "{ headers: { 'x-key': process.env.KEY } }";
      const ask = `fetch('https://127.0.0.1:${port}', ${headers}).then((answer) => answer.text())`;
      const spool = await createSpool(join(await bench().makeFolder(), "spool"));
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
    if (!bench().engine.hasNetwork) return;
    const { sandbox } = await bench().makeSandbox({ network: { mode: "full" } });
    expect((await sandbox.exec("grep -c eth0 /proc/net/dev")).stdout).toBe("1\n");
  });

  it("shows nothing of the other sandboxes in a workspace that holds them", async () => {
    const directory = await bench().makeFolder();
    const options = await bench().makeOptions({ root: join(directory, "data/sandboxes") });
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
  it("runs a turn of the scripted agent inside, and leaves no process at its end", async () => {
    const provider = createDockerProvider(await bench().makeOptions());
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
    const options = await bench().makeOptions();
    const providers = [createDockerProvider(options)];
    const test = await support.openEngine({ providers, defaultSandbox: "docker" });
    try {
      const slow = { shell: "for i in $(seq 1 60); do echo $i; sleep 0.03; done" };
      const prompt = support.script(slow, { say: "the end" });
      const args = [test.folder, JSON.stringify(options), prompt];
      await endProgram(await bench().startProgram("engine", args, "item.delta"));
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
  return (await bench().containers()).map(({ State }) => State);
}

function sandboxOf(events: readonly SluiceEvent[]): string {
  return support.ofType(events, "sandbox.boot")[0]?.data.sandbox_id ?? "none";
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
