import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import type { Spool } from "../../../src/spool/index.ts";
import { makeRunner } from "./workbench.ts";

const LINES = 1_500;

/** Prints numbered lines, and each line of its input as it comes. */
const COUNTER = `let n = 0;
require("node:readline").createInterface({ input: process.stdin }).on("line", (l) => console.log("in " + l)).on("close", () => process.exit(7));
const t = setInterval(() => { for (let i = 0; i < 10; i++) { console.log("line " + n++); } if (n >= ${LINES}) clearInterval(t); }, 10);`;

async function gather(spool: Spool, onLines: (count: number) => void = () => {}): Promise<string[]> {
  const lines: string[] = [];
  for await (const batch of spool.follow({ from: 0, signal: AbortSignal.timeout(60_000) })) {
    lines.push(...batch.lines.map(({ text }) => text));
    onLines(lines.length);
    if (batch.exit) return [...lines, JSON.stringify(batch.exit)];
  }
  throw new Error(`no end after ${lines.length} lines`);
}

describe("a sandbox behind a runner", { timeout: 120_000 }, () => {
  it("keeps every line and every input once, while the runner is killed and connections are cut", async () => {
    const runner = await makeRunner();
    const sandbox = await runner.provider.create({ id: "sbx_count" }, { spools: "", epoch: 1 });
    const launch = { argv: [process.execPath, "-e", COUNTER], env: {} };
    const spool = await sandbox.processes.start({ name: "1", launch, streams: "private" });
    const strikes = [300, 600, 900, 1_200];
    const struck: Promise<void>[] = [];
    const all = gather(spool, (count) => {
      if (strikes[0] === undefined || count < strikes[0]) return;
      strikes.shift();
      if (strikes.length % 2 === 0) runner.cut();
      else struck.push(runner.kill());
    });
    for (let n = 0; n < 40; n += 1) {
      // A server that does not know whether its input arrived sends it again.
      await Promise.all([0, 1].map(() => spool.send({ id: `i${n}`, at: 0, text: `${n}\n` })));
      await sleep(25);
    }
    await Promise.all(struck);
    while ((await spool.read("out", { from: 0, most: 1024 * 1024 })).includes(`line ${LINES - 1}`) === false)
      await sleep(50);
    await spool.closeInput();
    const lines = await all;
    expect(strikes).toEqual([]);
    expect(lines.filter((line) => line.startsWith("line "))).toEqual(
      Array.from({ length: LINES }, (_, n) => `line ${n}`),
    );
    expect(lines.filter((line) => line.startsWith("in "))).toEqual(
      Array.from({ length: 40 }, (_, n) => `in ${n}`),
    );
    expect(lines.at(-1)).toBe('{"code":7}');
  });

  it("starts a process once per name, and finds it again from another server", async () => {
    const runner = await makeRunner();
    const sandbox = await runner.provider.create({ id: "sbx_once" }, { spools: "", epoch: 1 });
    const launch = { argv: ["/bin/sh", "-c", "echo begun >> begun; cat"], env: {} };
    const process = { name: "1", launch, streams: "private" } as const;
    const [spool] = await Promise.all([sandbox.processes.start(process), sandbox.processes.start(process)]);
    await sandbox.processes.start(process);
    await spool.send({ id: "a", at: 0, text: "hello\n" });
    await runner.kill();

    const again = await runner.reopen().connect("sbx_once", { spools: "", epoch: 2 });
    const found = (await again!.processes.open("1"))!;
    expect(await found.send({ id: "a", at: 0, text: "hello\n" })).toBe(false);
    expect(await found.sent()).toEqual([{ id: "a", at: 0, text: "hello\n" }]);
    await found.closeInput();
    expect(await gather(found)).toEqual(["hello", '{"code":0}']);
    expect(Buffer.from(await again!.files.read("begun")).toString()).toBe("begun\n");
    // The server before is fenced, by every runner.
    await expect(spool.send({ id: "b", at: 0, text: "late\n" })).rejects.toMatchObject({ code: "fenced" });
    await expect(sandbox.killAll()).rejects.toMatchObject({ code: "fenced" });
    await runner.kill();
    await expect(sandbox.exec("true")).rejects.toMatchObject({ code: "fenced" });
  });

  it("has files, commands, signals, stderr and ports", async () => {
    const { provider } = await makeRunner();
    const sandbox = await provider.create(
      { id: "sbx_all", env: { COLOUR: "blue" } },
      { spools: "", epoch: 1 },
    );
    const { files } = sandbox;
    const large = Buffer.alloc(3_000_000, "x");
    await files.write("a/b.txt", "text", { mode: 0o640 });
    await files.write(
      "large",
      (async function* () {
        yield large;
      })(),
    );
    expect((await files.read("large")).length).toBe(large.length);
    expect(await files.stat("a/b.txt")).toMatchObject({ entryType: "file", size: 4 });
    await files.move("a/b.txt", "c.txt");
    expect((await files.list(".")).map(({ name }) => name)).toEqual(["a", "c.txt", "large"]);
    await files.symlink!("way-out", "/etc/passwd");
    await expect(files.read("way-out")).rejects.toMatchObject({ code: "permission_denied" });
    await expect(files.read("missing")).rejects.toMatchObject({ code: "file_not_found" });
    await files.remove("large");

    expect(await sandbox.exec("cat; echo $COLOUR >&2; exit 3", { input: "given" })).toMatchObject({
      exitCode: 3,
      stdout: "given",
      stderr: "blue\n",
    });
    const abort = new AbortController();
    const endless = sandbox.exec("echo $$ > pid; sleep 600", { signal: abort.signal });
    while (!(await files.stat("pid").catch(() => undefined))?.size) await sleep(20);
    const pid = Number(Buffer.from(await files.read("pid")).toString());
    abort.abort();
    await expect(endless).rejects.toThrow();
    await untilGone(pid);

    const launch = { argv: ["/bin/sh", "-c", "echo oops >&2; exec sleep 600"], env: {} };
    const spool = await sandbox.processes.start({ name: "s", launch, streams: "named" });
    while ((await spool.errorLength()) === 0) await sleep(10);
    await sandbox.processes.signal("s", "SIGTERM");
    expect(await gather(spool)).toEqual(['{"signal":"SIGTERM"}']);
    expect(await spool.stderr()).toEqual({ head: "oops", truncated: false, total_lines: 1 });

    const serve = `require("node:http").createServer((q, r) => r.end("hello from inside")).listen(0, "127.0.0.1", function () { console.log(this.address().port) })`;
    const server = await sandbox.processes.start({
      name: "web",
      launch: { argv: [process.execPath, "-e", serve], env: {} },
      streams: "private",
    });
    while ((await server.length()) === 0) await sleep(10);
    const port = Number((await server.read("out", { from: 0, most: 100 })).toString());
    const url = await sandbox.host!(port);
    expect(await (await fetch(url)).text()).toBe("hello from inside");
    await sandbox.destroy();
    await expect(fetch(url)).rejects.toThrow();
    expect(await provider.connect("sbx_all")).toBeUndefined();
    expect(await provider.list()).toEqual([]);
  });

  it("is unreachable while its machine is, never gone, and goes on afterwards", async () => {
    const runner = await makeRunner();
    const sandbox = await runner.provider.create({ id: "sbx_dark" }, { spools: "", epoch: 1 });
    const launch = { argv: ["/bin/sh", "-c", "sleep 1; echo later"], env: {} };
    const spool = await sandbox.processes.start({ name: "1", launch, streams: "private" });
    const all = gather(spool);
    runner.down(true);
    runner.cut();
    expect(await sandbox.state!()).toBe("unreachable");
    await expect(sandbox.exec("true")).rejects.toMatchObject({
      code: "sandbox_unreachable",
      retryable: true,
    });
    await sleep(1_500);
    runner.down(false);
    expect(await all).toEqual(["later", '{"code":0}']);
    expect(await sandbox.state!()).toBe("running");
    await sandbox.destroy();
    expect(await sandbox.state!()).toBe("gone");
    // Only now is the process lost, and its follower hears of it.
    expect(await gather(spool)).toEqual(['{"lost":true}']);
  });

  it("refuses names, bodies and programs that lead elsewhere", async () => {
    const { provider, root } = await makeRunner();
    const sandbox = await provider.create({ id: "sbx_bad" }, { spools: "", epoch: 1 });
    const launch = { argv: ["/bin/true"], env: {} };
    for (const name of ["../x", "", "a/b", "x".repeat(200)])
      await expect(sandbox.processes.start({ name, launch, streams: "named" })).rejects.toMatchObject({
        code: "invalid_request",
      });
    await expect(
      sandbox.processes.start({
        name: "n",
        launch: { argv: ["no-such-program"], env: {} },
        streams: "named",
      }),
    ).rejects.toMatchObject({ code: "agent_not_installed" });
    expect(await sandbox.processes.open("n")).toBeUndefined();
    await expect(provider.create({ id: "x", directory: "/tmp" })).rejects.toMatchObject({
      code: "capability_missing",
    });
    await expect(provider.create({ id: "x", network: { mode: "none" } })).rejects.toMatchObject({
      code: "capability_missing",
    });
    expect(await readFile(join(root, "epochs", "sbx_bad"), "utf8").catch(() => "1")).toBe("1");
  });
});

async function untilGone(pid: number): Promise<void> {
  for (let tries = 0; tries < 300; tries += 1) {
    try {
      process.kill(pid, 0);
    } catch {
      return;
    }
    await sleep(20);
  }
  throw new Error(`${pid} still runs`);
}
