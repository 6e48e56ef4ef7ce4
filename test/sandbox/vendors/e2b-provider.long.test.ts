import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { get } from "node:http";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import type { Sandbox } from "../../../src/sandbox/port.ts";
import type { Spool } from "../../../src/spool/index.ts";
import { openE2b } from "./e2b-workbench.ts";
import { processTexts } from "./machines.ts";

const LINES = 1_000;
const COUNTER = `let n = 0;
require("node:readline").createInterface({ input: process.stdin }).on("line", (l) => console.log("in " + l)).on("close", () => process.exit(7));
const t = setInterval(() => { for (let i = 0; i < 10; i++) { console.log("line " + n++); } if (n >= ${LINES}) clearInterval(t); }, 10);`;

async function gather(spool: Spool, onLines: (count: number) => void = () => {}): Promise<string[]> {
  const lines: string[] = [];
  for await (const batch of spool.follow({ from: 0, signal: AbortSignal.timeout(90_000) })) {
    lines.push(...batch.lines.map(({ text }) => text));
    onLines(lines.length);
    if (batch.exit) return [...lines, JSON.stringify(batch.exit)];
  }
  throw new Error(`no end after ${lines.length} lines`);
}

const claim = (epoch: number) => ({ spools: "", epoch });

describe("e2b, by its own SDK against an emulator", { timeout: 180_000 }, () => {
  it("keeps every line and every input once, while connections are cut, the runner is killed and the machine sleeps", async () => {
    const { e2b, provider } = await openE2b();
    const sandbox = await provider.create({ id: "sbx_count", session: "s" }, claim(1));
    const [machine] = e2b.machines.all();
    const launch = { argv: [process.execPath, "-e", COUNTER], env: {} };
    const spool = await sandbox.processes.start({ name: "1", launch, streams: "private" });
    const strikes: Record<number, () => void> = {
      200: () => e2b.cut(),
      400: () => e2b.machines.runners(machine!).forEach((pid) => process.kill(pid, "SIGKILL")),
      600: () => e2b.expire(machine!),
    };
    const struck: string[] = [];
    const all = gather(spool, (count) => {
      for (const [at, strike] of Object.entries(strikes)) {
        if (count < Number(at) || struck.includes(at)) continue;
        struck.push(at);
        strike();
      }
    });
    for (let n = 0; n < 20; n += 1) {
      // A server that does not know whether its input arrived sends it again.
      await Promise.all([0, 1].map(() => spool.send({ id: `i${n}`, at: 0, text: `${n}\n` })));
      await sleep(25);
    }
    while (!(await spool.read("out", { from: 0, most: 1024 * 1024 })).includes(`line ${LINES - 1}`))
      await sleep(50);
    await spool.closeInput();
    const lines = await all;
    expect(struck).toEqual(["200", "400", "600"]);
    expect(lines.filter((line) => line.startsWith("line "))).toEqual(
      Array.from({ length: LINES }, (_, n) => `line ${n}`),
    );
    expect(lines.filter((line) => line.startsWith("in "))).toEqual(
      Array.from({ length: 20 }, (_, n) => `in ${n}`),
    );
    expect(lines.at(-1)).toBe('{"code":7}');
    await sandbox.destroy();
    expect(e2b.machines.all()).toEqual([]);
    expect(await provider.list!()).toEqual([]);
  });

  it("dials only with the token of the sandbox, and the vendor's key is never inside", async () => {
    const { e2b, provider, reopen } = await openE2b();
    const sandbox = await provider.create({ id: "sbx_key" }, claim(1));
    const [machine] = e2b.machines.all();
    await sandbox.processes.start({
      name: "1",
      launch: { argv: ["/bin/sh", "-c", "env > env.txt; sleep 600"], env: {} },
      streams: "private",
    });
    await (await reopen().connect("sbx_key", claim(2)))!.exec("true");
    const tokens = new Set(e2b.dials.map(({ headers }) => headers["sluice-token"]));
    expect(tokens.size).toBe(1);
    const [token] = [...tokens];
    expect(String(token)).toMatch(/^[\w-]{43}$/);
    expect(processTexts(machine!)).not.toContain(e2b.key);
    for (const secret of [e2b.key, String(token)])
      expect(spawnSync("grep", ["-rlaF", "--", secret, machine!.home]).stdout.toString()).toBe("");

    // The runner itself refuses, also behind the edge.
    for (const given of [undefined, "", "x".repeat(43)]) {
      const headers = { connection: "Upgrade", upgrade: "websocket", "sec-websocket-key": "x".repeat(22) };
      const answered = await new Promise<number | undefined>((resolve, reject) => {
        const request = get({
          port: machine!.port,
          path: "/v1/dial",
          headers: { ...headers, ...(given === undefined ? {} : { "sluice-token": given }) },
        });
        request.on("response", ({ statusCode }) => resolve(statusCode));
        request.on("upgrade", (_response, socket) => (socket.destroy(), resolve(101)));
        request.on("error", reject);
      });
      expect(answered).toBe(401);
    }
    const plain = await fetch(`http://127.0.0.1:${machine!.port}/v1/hello`);
    expect(plain.status).toBe(404);
    await sandbox.destroy();
  });

  it("is unreachable while E2B is, asleep while nothing needs it, and gone only by E2B's own word", async () => {
    const { e2b, provider, reopen } = await openE2b();
    const made = await provider.create({ id: "sbx_dark" }, claim(1));
    await made.files.write("kept.txt", "kept");
    for (const how of ["down", 503, 500, 404, 401] as const) {
      e2b.fail(how);
      const other = reopen();
      await expect(other.connect("sbx_dark"), String(how)).rejects.toMatchObject({
        code: "sandbox_unreachable",
        retryable: true,
      });
      await expect(other.create({ id: "sbx_dark" }), String(how)).rejects.toThrow();
      expect(await made.state!()).toBe("unreachable");
    }
    e2b.fail(undefined);
    expect(e2b.machines.all()).toHaveLength(1);

    // A machine that sleeps is woken for a reason, and by nothing else.
    const [machine] = e2b.machines.all();
    e2b.expire(machine!);
    const found = (await reopen().connect("sbx_dark", claim(2)))!;
    expect(await found.state!()).toBe("asleep");
    await expect(found.exec("true")).rejects.toMatchObject({ code: "sandbox_unreachable" });
    expect(machine!.state).toBe("paused");
    await found.touch!();
    expect(Buffer.from(await found.files.read("kept.txt")).toString()).toBe("kept");

    const launch = { argv: ["/bin/sh", "-c", "echo begun; sleep 600"], env: {} };
    const spool = await found.processes.start({ name: "1", launch, streams: "private" });
    await e2b.machines.remove(machine!.id);
    expect(await gather(spool)).toContain('{"lost":true}');
    expect(await found.state!()).toBe("gone");
    const last = reopen();
    expect(await last.connect("sbx_dark")).toBeUndefined();
    expect(await last.list!()).toEqual([]);
  });

  it("is paused with its processes through a restart of the server, and only a resume wakes it", async () => {
    const { e2b, provider, reopen } = await openE2b();
    const sandbox = await provider.create({ id: "sbx_pause" }, claim(1));
    const [machine] = e2b.machines.all();
    const script = "i=0; while [ $i -lt 40 ]; do echo $i; i=$((i+1)); sleep 0.05; done";
    const launch = { argv: ["/bin/sh", "-c", script], env: {} };
    const spool = await sandbox.processes.start({ name: "1", launch, streams: "private" });
    while ((await spool.length()) < 5) await sleep(10);
    await sandbox.pause!();
    expect(machine!.state).toBe("paused");

    const again = (await reopen().connect("sbx_pause", claim(2)))!;
    await again.touch!();
    await expect(again.exec("true")).rejects.toThrow(/paused\. Resume/);
    const all = gather((await openSoon(again, "1", () => again.resume!()))!);
    expect(await all).toEqual([...Array.from({ length: 40 }, (_, n) => String(n)), '{"code":0}']);
    await again.destroy();
    expect(e2b.machines.all()).toEqual([]);
  });

  it("carries large files, many calls at once, and connections that end in one direction first", async () => {
    const { provider } = await openE2b();
    const sandbox = await provider.create({ id: "sbx_large" }, claim(1));
    const large = randomBytes(12_000_000);
    await sandbox.files.write("large", large);
    expect(Buffer.from(await sandbox.files.read("large")).equals(large)).toBe(true);
    const numbers = Array.from({ length: 64 }, (_, n) => n);
    const outputs = await Promise.all(numbers.map((n) => sandbox.exec(`echo ${n}`)));
    expect(outputs.map(({ stdout }) => stdout)).toEqual(numbers.map((n) => `${n}\n`));

    // It answers after the end of its input.
    const count = `require("net").createServer({ allowHalfOpen: true }, (s) => { let n = 0; s.on("data", (d) => (n += d.length)).on("end", () => s.end("got " + n)); }).listen(0, "127.0.0.1", function () { console.log(this.address().port) })`;
    const launch = { argv: [process.execPath, "-e", count], env: {} };
    const spool = await sandbox.processes.start({ name: "count", launch, streams: "private" });
    while ((await spool.length()) === 0) await sleep(10);
    const port = Number((await spool.read("out", { from: 0, most: 100 })).toString());
    const { hostname, port: here } = await sandbox.host!(port);
    const socket = connect({ host: hostname, port: Number(here), allowHalfOpen: true });
    socket.end(large.subarray(0, 3_000_000));
    const chunks: Buffer[] = [];
    for await (const chunk of socket as AsyncIterable<Buffer>) chunks.push(chunk);
    expect(Buffer.concat(chunks).toString()).toBe("got 3000000");
    await sandbox.destroy();
  });

  it("finds the machine of a creation whose answer was lost, and makes no second one", async () => {
    const { e2b, provider, reopen } = await openE2b();
    e2b.loseCreation();
    await expect(provider.create({ id: "sbx_lost", session: "s" })).rejects.toMatchObject({
      code: "sandbox_unreachable",
    });
    expect(await provider.list!()).toMatchObject([{ id: "sbx_lost", session: "s" }]);
    const sandbox = await reopen().create({ id: "sbx_lost", session: "s" }, claim(1));
    expect(e2b.machines.all()).toHaveLength(1);
    expect((await sandbox.exec("echo here")).stdout).toBe("here\n");
    // A half-made one of a deleted session is ended, too.
    e2b.loseCreation();
    await expect(provider.create({ id: "sbx_half", session: "t" })).rejects.toThrow();
    await (await reopen().connect("sbx_half"))?.destroy();
    await sandbox.destroy();
    expect(e2b.machines.all()).toEqual([]);
    expect(await provider.list!()).toEqual([]);
  });
});

/** Opens a process of a paused sandbox while that is resumed. */
async function openSoon(
  sandbox: Sandbox,
  name: string,
  resume: () => Promise<void>,
): Promise<Spool | undefined> {
  const opening = sandbox.processes.open(name);
  await resume();
  return opening;
}
