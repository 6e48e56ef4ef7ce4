import { spawnSync } from "node:child_process";
import { expect, it } from "vitest";
import { createDockerProvider } from "../../../src/sandbox/docker/provider.ts";
import { RemoteDockerProvider } from "../../../src/sandbox/docker/remote/provider.ts";
import { findRemoteEngine } from "../../../src/sandbox/docker/remote/address.ts";
import type { SluiceEvent } from "../../../src/contract/index.ts";
import type { Sandbox } from "../../../src/sandbox/port.ts";
import { script } from "../../support/engine.ts";
import { expectLawful } from "../../support/laws.ts";
import { startServer } from "../../support/server.ts";
import { describeDocker, useDockerBench } from "../docker-bench.ts";
import { expectEverythingOnce } from "./matrix.ts";
import { NO_SSHD, startSshd } from "./sshd.ts";
import { startTlsEngine, type TlsEngine } from "./tls-engine.ts";
import { makeFolder, onCleanup } from "./workbench.ts";

const bench = useDockerBench({ outlived: true });
const claim = (epoch: number) => ({ spools: "", epoch });

interface Far {
  readonly far: TlsEngine;
  readonly records: string;
  readonly root: string;
  readonly provider: RemoteDockerProvider;
  /** The provider as another server has it. */
  open(env?: Record<string, string>): RemoteDockerProvider;
}

async function openFar(): Promise<Far> {
  const { socketPath, image } = bench().engine;
  const [far, records, root] = [await startTlsEngine(socketPath), await makeFolder(), await makeFolder()];
  const open: Far["open"] = (env = {}) => {
    const given: Record<string, string> = { ...far.env, ...env };
    return new RemoteDockerProvider({ host: given["DOCKER_HOST"]!, records, root, image, env: given });
  };
  onCleanup(async () => {
    for (const found of await bench().docker.listContainers({
      all: true,
      filters: { label: ["sluice.elsewhere"] },
    }))
      await bench().docker.getContainer(found.Id).remove({ force: true, v: true });
  });
  return { far, records, root, provider: open(), open };
}

const T = 180_000;

describeDocker("a docker engine on another machine, by TLS", () => {
  it(
    "has every line and every input once while the connection is cut, the runner, the engine and the server are killed, and it freezes",
    async () => {
      const { far, provider, open } = await openFar();
      const sandbox = await provider.create({ id: "sbx_far", session: "s" }, claim(1));
      expect(sandbox).toMatchObject({ provider: "docker", isolated: true });
      const [container] = await bench().docker.listContainers({ filters: { label: ["sluice.elsewhere"] } });
      const killRunner = async (): Promise<void> => {
        const top = await bench().docker.getContainer(container!.Id).top({ ps_args: "-eo pid,args" });
        const rows = top.Processes as [pid: string, args: string][];
        const runners = rows.filter(([, args]) => args.startsWith("node /sluice/runner.cjs listen"));
        expect(runners).toHaveLength(1);
        process.kill(Number(runners[0]![0]), "SIGKILL");
      };
      let last: Sandbox = sandbox;
      await expectEverythingOnce(sandbox, [
        () => far.cut(),
        killRunner,
        // The engine of SLUICE_TEST_ENGINE is somebody's.
        () => bench().engine.restart?.(),
        async () => (last = (await open().connect("sbx_far", claim(2)))!),
        async () => {
          await last.pause!();
          expect(await last.state!()).toBe("asleep");
          await expect(last.exec("true")).rejects.toMatchObject({ code: "sandbox_unreachable" });
          await last.resume!();
        },
      ]);
      await expect(sandbox.exec("true")).rejects.toMatchObject({ code: "fenced" });
      await last.destroy();
      expect(
        await bench().docker.listContainers({ all: true, filters: { label: ["sluice.elsewhere"] } }),
      ).toEqual([]);
      expect(await open().list()).toEqual([]);
    },
    T,
  );

  it(
    "is unreachable while the engine is, gone only by its word, and wakes a container that was stopped",
    async () => {
      const { far, root, records, open, provider } = await openFar();
      const limits = { memoryBytes: 256 * 1024 * 1024, processes: 200 };
      const spec = { id: "sbx_dark", network: { mode: "none" }, limits } as const;
      const sandbox = await provider.create(spec, claim(1));
      await sandbox.files.write("kept.txt", "kept");
      const [found] = await bench().docker.listContainers({ filters: { label: ["sluice.elsewhere"] } });
      const container = bench().docker.getContainer(found!.Id);
      const { HostConfig, Config } = await container.inspect();
      expect(HostConfig).toMatchObject({ Memory: limits.memoryBytes, PidsLimit: 200, NetworkMode: "none" });
      expect(HostConfig).toMatchObject({ CapDrop: ["ALL"], SecurityOpt: ["no-new-privileges"] });
      expect(Config.User).toBe("1000:1000");
      expect((await sandbox.exec("id -u; ls /sys/class/net")).stdout).toBe("1000\nlo\n");

      far.down(true);
      expect(await sandbox.state!()).toBe("unreachable");
      await expect(open().connect("sbx_dark")).rejects.toMatchObject({ code: "sandbox_unreachable" });
      far.down(false);
      const other = open({ DOCKER_HOST: "tcp://192.0.2.1:2376" });
      await expect(other.connect("sbx_dark")).rejects.toMatchObject({ code: "sandbox_unreachable" });
      const here = createDockerProvider({ root, records, socketPath: bench().engine.socketPath });
      await expect(here.connect("sbx_dark")).rejects.toThrow(/Set DOCKER_HOST to it again/);

      await container.stop({ t: 0 });
      const again = (await open().connect("sbx_dark", claim(2)))!;
      expect(await again.state!()).toBe("asleep");
      await again.touch!();
      expect(Buffer.from(await again.files.read("kept.txt")).toString()).toBe("kept");
      await container.remove({ force: true });
      expect(await again.state!()).toBe("gone");
      expect(await open().connect("sbx_dark")).toBeUndefined();
    },
    T,
  );

  it(
    "refuses an engine without TLS, a foreign certificate, single hosts and a missing image, and says what to do",
    async () => {
      const { provider, open, far } = await openFar();
      expect(await provider.detect()).toEqual({ available: true });
      await expect(provider.check!({ image: "nobody/nothing:1" })).rejects.toThrow(
        "docker pull nobody/nothing:1",
      );
      const network = { mode: "allow", hosts: ["example.com"] } as const;
      await expect(provider.check!({ network })).rejects.toMatchObject({ code: "capability_missing" });
      await expect(provider.check!({ directory: "/tmp" })).rejects.toThrow(/Leave the directory out/);
      const bare = open({ DOCKER_HOST: "tcp://192.0.2.1:2375", DOCKER_TLS_VERIFY: "", DOCKER_CERT_PATH: "" });
      expect(await bare.detect()).toMatchObject({
        available: false,
        reason: expect.stringContaining("no TLS"),
      });
      const foreign = await startTlsEngine(bench().engine.socketPath);
      const wrong = open({ DOCKER_HOST: foreign.env["DOCKER_HOST"]! });
      expect((await wrong.detect()).reason).toMatch(/cannot be reached now/);
      expect((await open({ DOCKER_CERT_PATH: "/nonexistent" }).detect()).reason).toContain(
        "ca.pem cannot be read",
      );
      expect(far.env["DOCKER_HOST"]).toMatch(/127\.0\.0\.1/);
      for (const [env, remote] of [
        [{}, false],
        [{ DOCKER_HOST: "unix:///run/docker.sock" }, false],
        [{ DOCKER_HOST: "tcp://127.0.0.1:2375" }, false],
        [{ DOCKER_HOST: "tcp://127.0.0.1:2376", DOCKER_TLS_VERIFY: "1" }, true],
        [{ DOCKER_HOST: "tcp://192.0.2.1:2375" }, true],
        [{ DOCKER_HOST: "ssh://me@host" }, true],
      ] as const)
        expect(findRemoteEngine(env) !== undefined, JSON.stringify(env)).toBe(remote);
    },
    T,
  );

  it(
    "carries sessions: every line and every input once through a kill of the server, without a network",
    async () => {
      const { far } = await openFar();
      const { image } = bench().engine;
      const server = await startServer({ env: { ...far.env, SLUICE_DOCKER_IMAGE: image } });
      onCleanup(() => server.close());
      const { client } = server;
      const spec = { agent: "scripted", sandbox: "docker", network: "none" } as const;
      await client.sessions.create("s", spec);
      const count = `i=0; while [ $i -lt 200 ]; do echo "line $i "; i=$((i+1)); sleep 0.01; done`;
      await client.sendMessage(
        "s",
        script({ shell: count }, { write: { path: "made.txt", content: "far" } }),
      );
      for await (const event of client.subscribe("s", { extensions: true }))
        if (event.type === "item.delta" && event.data.delta.includes("line 40 ")) break;
      await server.kill();
      await server.start();
      const events: SluiceEvent[] = [];
      for await (const event of client.subscribe("s", { extensions: true })) {
        events.push(event);
        if (event.type === "turn.ended") break;
      }
      expectLawful(events);
      expect(events.at(-1)?.data).toMatchObject({ status: "completed" });
      expect(printed(events)).toEqual(Array.from({ length: 200 }, (_, n) => `line ${n} `));
      for (const type of ["input.accepted", "process.started", "sandbox.boot"])
        expect(
          events.filter((event) => event.type === type),
          type,
        ).toHaveLength(1);
      const ready = events.find((event) => event.type === "sandbox.ready");
      expect(ready?.data).toMatchObject({ provider: "docker", isolated: true });
      expect(await (await server.fetch("/v1/fs/file?session=s&path=made.txt")).text()).toBe("far");
      await client.sessions.delete("s");
      const label = ["sluice.elsewhere"];
      expect(await bench().docker.listContainers({ all: true, filters: { label } })).toEqual([]);
    },
    T,
  );

  it.skipIf(NO_SSHD !== undefined || !hasDocker())(
    "is reached by SSH as docker itself reaches it, and an unknown host key is refused",
    async () => {
      const sshd = await startSshd({ DOCKER_HOST: `unix://${bench().engine.socketPath}` });
      const { open } = await openFar();
      const env = { ...sshd.env, DOCKER_HOST: sshd.url };
      const sandbox = await open(env).create({ id: "sbx_ssh" }, claim(1));
      let last: Sandbox = sandbox;
      await expectEverythingOnce(sandbox, [
        () => sshd.cut(),
        async () => (last = (await open(env).connect("sbx_ssh", claim(2)))!),
      ]);
      sshd.down(true);
      expect(await last.state!()).toBe("unreachable");
      sshd.down(false);
      await last.destroy();
      const unknown = open({ ...env, SLUICE_SSH_KNOWN_HOSTS: "/dev/null" });
      await expect(unknown.check!({})).rejects.toMatchObject({ code: "permission_denied" });
    },
    T,
  );
});

/** The numbered lines of the agent's shell, joined from its deltas. */
function printed(events: readonly SluiceEvent[]): string[] {
  const deltas = events.flatMap((event) => (event.type === "item.delta" ? [event.data.delta] : []));
  return deltas.join("").match(/line \d+ /g) ?? [];
}

function hasDocker(): boolean {
  return spawnSync("docker", ["--version"]).status === 0;
}
