import { appendFile, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createSpool, openSpool } from "../../src/spool/index.ts";
import { collect, followAll, makeFolder, start, texts, waitFor } from "./workbench.ts";

describe("a spooled process", () => {
  it("gives its lines with their offsets, and its exit", async () => {
    const spool = await createSpool(join(await makeFolder(), "s"));
    await start(spool, ["printf", "one\\nzwölf\\n\\nthree\\n"]);
    const { lines, last } = await followAll(spool);
    expect(lines).toEqual([
      { dir: "out", text: "one", at: 0 },
      { dir: "out", text: "zwölf", at: 4 },
      { dir: "out", text: "three", at: 12 },
    ]);
    expect(last.exit).toEqual({ code: 0 });
    expect(last.offset).toBe(18);
    expect(await spool.exit()).toEqual({ code: 0 });
  });

  it("is closed to others", async () => {
    const folder = join(await makeFolder(), "s");
    await createSpool(folder);
    expect((await stat(folder)).mode & 0o777).toBe(0o700);
    for (const name of ["in", "out", "err", "sent"])
      expect((await stat(join(folder, name))).mode & 0o777).toBe(0o600);
  });

  it("gives an unterminated last line as a line", async () => {
    const spool = await createSpool(join(await makeFolder(), "s"));
    await start(spool, ["printf", "a\\nlast words"]);
    const { lines, last } = await followAll(spool);
    expect(texts(lines)).toEqual(["a", "last words"]);
    expect(last.offset).toBe(12);
    expect(texts((await collect(spool.replay(0, last.offset))).lines)).toEqual(["a", "last words"]);
    expect((await followAll(spool, last.offset)).lines).toEqual([]);
  });

  it.each([
    ["an exit code", "exit 3", { code: 3 }],
    ["its own SIGKILL", "kill -9 $$", { signal: "SIGKILL" }],
    ["its own SIGTERM", "kill -TERM $$", { signal: "SIGTERM" }],
    ["a code that is no signal", "exit 255", { code: 255 }],
  ])("records %s", async (_name, script, exit) => {
    const spool = await createSpool(join(await makeFolder(), "s"));
    await start(spool, ["sh", "-c", script]);
    expect((await followAll(spool)).last.exit).toEqual(exit);
  });

  it("records a command that does not exist, and never a shell builtin in its place", async () => {
    const missing = await createSpool(join(await makeFolder(), "s"));
    await start(missing, ["no-such-command-here"]);
    expect((await followAll(missing)).last.exit).toEqual({ code: 127 });
    expect((await missing.stderr()).head).toContain("not found");

    const builtin = await createSpool(join(await makeFolder(), "s"));
    await start(builtin, ["exit", "7"]);
    expect((await followAll(builtin)).last.exit).toEqual({ code: 127 });
  });

  it.each(["SIGINT", "SIGTERM", "SIGHUP"] as const)(
    "survives %s to the group long enough to record it",
    async (signal) => {
      const spool = await createSpool(join(await makeFolder(), "s"));
      const pid = await start(spool, ["sh", "-c", "echo up; exec sleep 600"]);
      await waitFor(async () => (await spool.size()) > 0);
      process.kill(-pid, signal);
      expect((await followAll(spool)).last.exit).toEqual({ signal });
    },
  );

  it("lets the command handle SIGINT and goes on feeding it", async () => {
    const spool = await createSpool(join(await makeFolder(), "s"));
    const script = 'trap "echo interrupted" INT; echo up; while read -r line; do echo "got $line"; done';
    const pid = await start(spool, ["bash", "-c", script]);
    await waitFor(async () => (await spool.size()) > 0);
    process.kill(-pid, "SIGINT");
    await spool.send({ id: "1", at: 0, text: "hello\n" });
    await waitFor(async () => (await readFile(join(spool.folder, "out"), "utf8")).includes("got hello"));
    await spool.closeInput();
    const { lines, last } = await followAll(spool);
    expect(texts(lines)).toContain("interrupted");
    expect(last.exit).toEqual({ code: 0 });
  });

  it("is lost when its wrapper is killed, and reports that behind all output", async () => {
    const spool = await createSpool(join(await makeFolder(), "s"));
    const pid = await start(spool, ["sh", "-c", "echo one; echo two; exec sleep 600"]);
    await waitFor(async () => (await spool.size()) >= 8);
    expect(await spool.isAlive()).toBe(true);
    process.kill(pid, "SIGKILL");
    const { lines, last } = await followAll(spool);
    expect(texts(lines)).toEqual(["one", "two"]);
    expect(last.exit).toEqual({ lost: true });
    expect(await spool.isAlive()).toBe(false);
    process.kill(-pid, "SIGKILL");
  });

  it("is not taken for another process that has its pid", async () => {
    const spool = await createSpool(join(await makeFolder(), "s"));
    const boot = (await readFile("/proc/sys/kernel/random/boot_id", "utf8")).trim();
    await writeFile(join(spool.folder, "pid"), `${process.pid} 1 ${boot}\n`);
    expect(await spool.isAlive()).toBe(false);
    expect(await spool.exit()).toEqual({ lost: true });
  });

  it("counts as running while its pid or exit is half written", async () => {
    const spool = await createSpool(join(await makeFolder(), "s"));
    await writeFile(join(spool.folder, "pid"), "12");
    expect(await spool.pid()).toBeUndefined();
    await writeFile(join(spool.folder, "exit"), "1");
    expect(await spool.exit()).toBeUndefined();
    await appendFile(join(spool.folder, "exit"), "\n");
    expect(await spool.exit()).toEqual({ code: 1 });
  });

  it("is lost when it never begins", async () => {
    const spool = await createSpool(join(await makeFolder(), "s"), { startGraceMs: 50 });
    expect((await followAll(spool)).last.exit).toEqual({ lost: true });
  });

  it("is opened again long after its end", async () => {
    const folder = join(await makeFolder(), "s");
    expect(await openSpool(folder)).toBeUndefined();
    const spool = await createSpool(folder);
    await start(spool, ["echo", "x"]);
    await followAll(spool);
    const again = await openSpool(folder);
    expect(texts((await followAll(again!)).lines)).toEqual(["x"]);
    await expect(createSpool(folder)).rejects.toThrow("open its spool");
  });

  it("gives nothing more once the signal is aborted", async () => {
    const spool = await createSpool(join(await makeFolder(), "s"));
    await start(spool, ["sh", "-c", "echo one; exec sleep 600"]);
    const abort = new AbortController();
    const seen: string[] = [];
    for await (const batch of spool.follow({ from: 0, signal: abort.signal })) {
      seen.push(...texts(batch.lines));
      setTimeout(() => abort.abort(), 10);
    }
    expect(seen).toEqual(["one"]);
  });

  it("is removed with all its files", async () => {
    const spool = await createSpool(join(await makeFolder(), "s"));
    await spool.remove();
    expect(await openSpool(spool.folder)).toBeUndefined();
  });
});
