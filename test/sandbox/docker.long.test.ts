import { chmod, mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, it } from "vitest";
import { createDockerProvider } from "../../src/sandbox/docker/provider.ts";
import { sandboxTestkit } from "../../src/sandbox/testkit.ts";
import { createSpool } from "../../src/spool/index.ts";
import { describeDocker, findInProc, readToEnd, useDockerBench } from "./docker-bench.ts";
import { waitFor } from "./workbench.ts";

const bench = useDockerBench();

sandboxTestkit({ name: "docker", create: () => bench().makeSubject(), describe: describeDocker, it });

describeDocker("the docker provider", () => {
  it("names the engine, and the remedy where there is none", async () => {
    const options = await bench().makeOptions();
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
    const { root } = await bench().makeOptions();
    process.env["DOCKER_HOST"] = `unix://${bench().engine.socketPath}`;
    const { image } = bench().engine;
    expect(await createDockerProvider({ root, image }).detect()).toEqual({ available: true });
    process.env["DOCKER_HOST"] = "tcp://192.0.2.1:2375";
    expect((await createDockerProvider({ root }).detect()).reason).toContain("out of reach");
    delete process.env["DOCKER_HOST"];
  });

  it("never pulls an image", async () => {
    const provider = createDockerProvider(await bench().makeOptions());
    await expect(provider.create({ id: "x", image: "nobody/nothing:1" })).rejects.toThrow(
      "docker pull nobody/nothing:1",
    );
  });

  it("makes a new container where the old one would keep its settings", async () => {
    const { provider, sandbox } = await bench().makeSandbox({ limits: { memoryBytes: 64 * 1024 * 1024 } });
    await sandbox.exec("echo kept > file");
    const [before] = await bench().containers();
    expect(before?.Labels).toMatchObject({ "sluice.sandbox": "sbx_test", "sluice.key": expect.any(String) });
    const again = await provider.create({ id: "sbx_test", limits: { memoryBytes: 96 * 1024 * 1024 } });
    expect((await again.exec("cat file")).stdout).toBe("kept\n");
    const [after] = await bench().containers();
    expect(after?.Id).not.toBe(before?.Id);
    const { HostConfig } = await bench()
      .docker.getContainer(after?.Id ?? "")
      .inspect();
    expect(HostConfig).toMatchObject({ Memory: 96 * 1024 * 1024, PidsLimit: 4_096, Init: true });
  });

  it("leaves nothing behind but the directory that it was given", async () => {
    const directory = join(await bench().makeFolder(), "project");
    await mkdir(directory);
    const { options, provider, sandbox } = await bench().makeSandbox({ directory });
    expect((await sandbox.exec("pwd; id -u; echo hi > made; ls /mnt/session/outputs")).stdout).toBe(
      "/home/user/workspace\n0\n",
    );
    expect(await readdir(directory)).toEqual(["made", "output"]);
    await sandbox.destroy();
    expect(await readdir(directory)).toEqual(["made"]);
    expect(await readdir(options.root)).toEqual([]);
    expect(await provider.connect(sandbox.id)).toBeUndefined();
    expect(await bench().containers()).toEqual([]);
  });
});

describeDocker("a process in a container", () => {
  it("speaks through the spool, both ways, and ends with its own status", async () => {
    const { sandbox } = await bench().makeSandbox();
    const text = "while read -r x; do echo got $x; done; echo no >&2; exit 7";
    const spool = await bench().spawnScript(sandbox, text);
    await spool.send({ id: "1", at: 0, text: "one\n" });
    await spool.send({ id: "2", at: 0, text: `${"x".repeat(300_000)}\n` });
    await spool.closeInput();
    const { lines, exit } = await readToEnd(spool);
    expect(lines).toEqual(["got one", `got ${"x".repeat(300_000)}`]);
    expect(exit).toEqual({ code: 7 });
    expect(await spool.stderr()).toMatchObject({ head: "no" });
  });

  it("is read to its last line, also where a background process holds its output open", async () => {
    const { sandbox } = await bench().makeSandbox();
    // In one write, just before its end.
    const burst = "x=$(head -c 300000 /dev/zero | tr '\\0' x); echo $x; exit 3";
    const runs = Array.from({ length: 12 }, async (_, index) => {
      const spool = await bench().spawnScript(sandbox, `${index === 0 ? "sleep 600 &" : ""} ${burst}`);
      const { lines, exit } = await readToEnd(spool);
      return [lines.map((line) => line.length), exit];
    });
    expect(await Promise.all(runs)).toEqual(runs.map(() => [[300_000], { code: 3 }]));
  });

  it("is signalled by a restarted server, with its whole group", async () => {
    const { options, sandbox } = await bench().makeSandbox();
    const spool = await bench().spawnScript(sandbox, "sleep 600 & touch begun; wait");
    await waitFor(() => sandbox.files.stat("begun").catch(() => undefined));
    const again = (await createDockerProvider(options).connect(sandbox.id))!;
    await again.signal((await spool.pid())!, "SIGKILL");
    expect((await readToEnd(spool)).exit).toEqual({ signal: "SIGKILL" });
    expect((await again.exec("ps -eo args | grep -c '[s]leep 600'")).stdout).toBe("0\n");
    expect(await bench().containers()).toHaveLength(1);
  });

  it("has its secrets from the engine's API, and in no process list", async () => {
    const { options, sandbox } = await bench().makeSandbox({ env: { FROM_SPEC: "s3cret-spec" } });
    const spool = await bench().spawnScript(sandbox, "env; touch begun; cat > /dev/null", {
      FROM_LAUNCH: "s3cret-launch",
      // Would be run by our own programs on this side, were it ever in their environment.
      NODE_OPTIONS: "--require=/home/user/workspace/evil.js",
    });
    await waitFor(() => sandbox.files.stat("begun").catch(() => undefined));
    expect(await findInProc("cmdline", "s3cret")).toEqual([]);
    const environments = await findInProc("environ", "s3cret");
    expect(environments.length).toBeGreaterThan(0);
    for (const found of environments) expect(found).toContain("HOME=/home/user\0");
    const [container] = await bench().containers();
    const described = await bench()
      .docker.getContainer(container?.Id ?? "")
      .inspect();
    expect(JSON.stringify(described)).not.toContain("s3cret");
    const names = await readdir(join(options.root, sandbox.id, "processes"));
    expect(names.filter((name) => name.endsWith(".ticket"))).toEqual([]);
    await spool.closeInput();
    const { lines } = await readToEnd(spool);
    expect(lines).toContain("FROM_SPEC=s3cret-spec");
    expect(lines).toContain("FROM_LAUNCH=s3cret-launch");
  });

  it("sees its needed files of the host, read-only, at the same path", async () => {
    const { sandbox } = await bench().makeSandbox();
    const folder = await bench().makeFolder();
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

  it("is started where a needed file of an earlier command is gone", async () => {
    const { sandbox } = await bench().makeSandbox();
    const folder = await bench().makeFolder();
    for (const name of ["earlier", "later"]) {
      const need = join(folder, name);
      await writeFile(need, `#!/bin/sh\necho ${name}\n`, { mode: 0o755 });
      const spool = await createSpool(join(folder, `${name}.spool`));
      await sandbox.spawn({ launch: { argv: [need], env: {}, needs: [need] }, wrapper: spool.wrapper });
      expect((await readToEnd(spool)).lines).toEqual([name]);
      await rm(need);
    }
  });

  it("is not started while the sandbox is paused", async () => {
    const { sandbox } = await bench().makeSandbox();
    await sandbox.exec("true");
    await sandbox.pause!();
    await expect(sandbox.exec("true")).rejects.toThrow("Resume it first");
    await sandbox.resume!();
    expect((await sandbox.exec("echo fine")).stdout).toBe("fine\n");
  });
});
