import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import type { HostSandbox } from "../../src/sandbox/port.ts";
import { createSpool } from "../../src/spool/index.ts";
import { describeDocker, useDockerBench } from "../sandbox/docker-bench.ts";

const run = promisify(execFile);
const ATTACKER = join(import.meta.dirname, "programs/attacker.c");
const MB = 1024 * 1024;

const bench = useDockerBench();

describeDocker("a container whose agent means harm", () => {
  it("opens no stream of the agent again, neither its own nor its parent's", async () => {
    const { sandbox } = await bench().makeSandbox();
    const forge = `for p in /proc/[0-9]*; do
  for n in 0 1 3 4 5 6 7 8 9; do (timeout 1 sh -c "echo forged >> $p/fd/$n") 2> /dev/null; done
done`;
    const { lines, stderr } = await runAgent(sandbox, `(${forge}); read -r x; echo "got $x"`, "asked\n");
    expect(lines).toEqual(["got asked"]);
    expect(stderr).not.toContain("forged");
  });

  it("gives commands a stderr that can be opened by name", async () => {
    const { sandbox } = await bench().makeSandbox();
    const { stderr, exit } = await runAgent(sandbox, "sh -c 'echo told > /dev/stderr'; exit 3");
    expect(stderr).toBe("told");
    expect(exit).toEqual({ code: 3 });
  });

  it("runs nothing of its own as another user than its own", async () => {
    const { sandbox } = await bench().makeSandbox();
    await sandbox.files.write(
      "evil.js",
      "require('fs').writeFileSync('/tmp/ran-as', String(process.getuid()))",
    );
    const env = { NODE_OPTIONS: "--require=/home/user/workspace/evil.js", LD_PRELOAD: "/tmp/none.so" };
    const status = "grep -E '^(Uid|Groups|CapPrm|CapEff|CapAmb|NoNewPrivs|Seccomp):' /proc/self/status";
    const { lines } = await runAgent(sandbox, `node -e 0; cat /tmp/ran-as; echo; ${status}`, "", env);
    const uid = String(sandbox.owner!.uid);
    expect(lines.map((line) => line.split(/\s+/).filter(Boolean))).toEqual([
      [uid],
      ["Uid:", uid, uid, uid, uid],
      ["Groups:"],
      ["CapPrm:", "0000000000000000"],
      ["CapEff:", "0000000000000000"],
      ["CapAmb:", "0000000000000000"],
      ["NoNewPrivs:", "1"],
      ["Seccomp:", "2"],
    ]);
  });

  it("makes no setuid file, no other socket, and writes into no other process", async () => {
    const { sandbox } = await bench().makeSandbox();
    await run("gcc", ["-O1", "-w", "-static", "-o", join(sandbox.folders!.workspace, "attack"), ATTACKER]);
    const { stdout } = await sandbox.exec("mkdir try && cd try && ../attack");
    expect(stdout).toBe("done\n");
  });

  it("leaves archives, git, sockets and programs of Node at work", async () => {
    const { sandbox } = await bench().makeSandbox();
    const everyday = `set -e
mkdir -m 0755 a; chmod 1777 a; echo 1 > a/f; tar cf a.tar a; mkdir out; tar xpf a.tar -C out; cp -a out again
git init -q --template= r; cd r; echo 1 > f; git add f; git -c user.name=u -c user.email=u@example.org commit -qm one; cd ..
dd if=/dev/zero of=big bs=1M count=2 2> /dev/null; bash -c 'cat <(echo fine)'
node -e 'require("child_process").execSync("true"); require("net").createServer().listen("/tmp/sock", () => process.exit(0))'
node -e 'new (require("worker_threads").Worker)("process.exit(0)", { eval: true })'
echo done`;
    expect(await sandbox.exec(everyday)).toMatchObject({ stdout: "fine\ndone\n", stderr: "", exitCode: 0 });
  });

  it("has no room outside of the folders that are weighed", async () => {
    const { sandbox } = await bench().makeSandbox();
    // The sandbox's own folders, which are weighed.
    const weighed = ["/home/user", "/workspace", "/tmp", "/run/sluice"].map((path) => `! -path ${path}`);
    const { stdout } = await sandbox.exec(
      `for d in $(find / -xdev -type d -writable ${weighed.join(" ")} 2> /dev/null) /run /var/tmp /dev/shm; do
  f=$d/fill; dd if=/dev/zero of=$f bs=1M count=200 2> /dev/null; s=$(stat -c %s $f 2> /dev/null || echo 0); rm -f $f
  [ $s -ge ${100 * MB} ] && echo $d
done; echo looked`,
    );
    expect(stdout).toBe("looked\n");
    const [container] = await bench().containers();
    const { HostConfig } = await bench()
      .docker.getContainer(container?.Id ?? "")
      .inspect();
    expect(HostConfig.ReadonlyRootfs).toBe(true);
  });

  it("has a limit of the disk although none was asked for", async () => {
    const { options, sandbox } = await bench().makeSandbox();
    const record = JSON.parse(await readFile(join(options.root, sandbox.id, "sandbox.json"), "utf8"));
    expect(record.limits.diskBytes).toBeGreaterThan(0);
  });
});

/** Runs a shell script as an agent, to its end. */
async function runAgent(
  sandbox: HostSandbox,
  text: string,
  input = "",
  env: Record<string, string> = {},
): Promise<{ lines: string[]; stderr: string; exit: unknown }> {
  const spool = await createSpool(join(await bench().makeFolder(), "spool"));
  await sandbox.spawn({ launch: { argv: ["sh", "-c", text], env }, wrapper: spool.wrapper });
  if (input !== "") await spool.send({ id: "1", at: 0, text: input });
  const lines: string[] = [];
  let exit: unknown;
  for await (const batch of spool.follow({ from: 0, signal: AbortSignal.timeout(60_000) })) {
    lines.push(...batch.lines.map((line) => line.text));
    exit = batch.exit;
  }
  return { lines, stderr: (await spool.stderr()).head ?? "", exit };
}
