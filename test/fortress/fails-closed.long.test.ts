import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { SessionSpec } from "../../src/contract/index.ts";
import { createClient } from "../../src/client/index.ts";
import { ended, lines, printed, script } from "../cli/workbench.ts";
import { SERVER_USERS } from "./fortress-bench.ts";
import { asUser, BIN, Elsewhere, NO_DOCKER } from "./machines.ts";

const TOUCH = script({ shell: "touch made-by-the-agent" });
const SDK = join(import.meta.dirname, "../../dist/index.js");

describe.each(SERVER_USERS)("without bwrap and without Docker, under $name", (user) => {
  let bench: Elsewhere;
  beforeEach(() => {
    bench = new Elsewhere("no bwrap", user);
  });
  afterEach(() => bench.close());

  it("run starts nothing, and says the one command that helps", async () => {
    const ran = await bench.sluice(["run", TOUCH]);
    expect(ran.code).toBe(1);
    expect(ran.err).toMatch(/Run: .*install.* bubblewrap/);
    expect(ran.err).toContain("--sandbox local");
    expect(readdirSync(bench.work)).toEqual([]);
    expect(ran.err.split("\n").filter(Boolean)).toHaveLength(1);
    const listed = await bench.sluice(["sessions", "--json"]);
    expect(listed.out.trim()).toBe("");
  });

  it("run with --sandbox local runs, and says that nothing is isolated", async () => {
    const ran = await bench.sluice(["run", "--sandbox", "local", TOUCH]);
    expect(ran).toMatchObject({ code: 0, out: expect.stringContaining("not isolated") });
    expect(readdirSync(bench.work)).toContain("made-by-the-agent");
  });

  it("record starts nothing and leaves no recording", async () => {
    const ran = await bench.sluice(["record", "--out", "it.jsonl", TOUCH]);
    expect(ran).toMatchObject({ code: 1, err: expect.stringContaining("bubblewrap") });
    expect(readdirSync(bench.work)).toEqual([]);
  });

  it("serve refuses to start", async () => {
    const ran = await bench.sluice(["serve", "--port", "0"]);
    expect(ran).toMatchObject({ code: 1, out: "" });
    expect(ran.err).toMatch(/Run: .*install.* bubblewrap/);
  });

  it("serve refuses to start with an isolated sandbox that was named and does not work", async () => {
    for (const sandbox of ["bwrap", "docker"]) {
      const ran = await bench.sluice(["serve", "--port", "0", "--sandbox", sandbox]);
      expect(ran, sandbox).toMatchObject({ code: 1, out: "" });
    }
    expect(await bench.sluice(["serve", "--sandbox", "nothing"])).toMatchObject({ code: 2, out: "" });
  });

  it("serve --sandbox local starts, says so, and its sessions are local", async () => {
    const argv = bench.argv(BIN, "serve", "--port", "0", "--no-token", "--sandbox", "local");
    const child = bench.start([], { argv, env: NO_DOCKER });
    const end = ended(child);
    const url = (await printed(child, /\n/)).trim().split(" ").at(-1) ?? "";
    const client = createClient({ url });
    await client.sessions.create("one", { agent: "scripted" });
    expect(await client.sessions.get("one")).toMatchObject({ sandbox: "local" });
    await client.sessions.create("two", { agent: "scripted", sandbox: "bwrap" }).then(
      () => expect.unreachable("bwrap does not work there"),
      (error: { code: string }) => expect(error.code).toBe("unsupported_sandbox"),
    );
    child.kill("SIGTERM");
    expect((await end).err).toContain("no isolation");
  });

  it("the embedded SDK refuses, unless it is told to use local", async () => {
    const program = `
      import { Sluice } from ${JSON.stringify(SDK)};
      const sluice = new Sluice().withWorkingDirectory(".");
      if (process.argv[1]) sluice.withSandbox(process.argv[1]);
      try {
        const { exitCode } = await sluice.run({ prompt: ${JSON.stringify(TOUCH)} });
        console.log(JSON.stringify({ exitCode }));
      } catch ({ code, message }) {
        console.log(JSON.stringify({ code, message }));
      }
      await sluice.kill();`;
    const run = (...args: string[]) =>
      bench.run([], {
        argv: bench.argv("--input-type=module", "-e", program, ...args),
        env: NO_DOCKER,
      });
    const refused = await run();
    expect(lines(refused.out), refused.err).toEqual([
      { code: "unsupported_sandbox", message: expect.stringContaining("bubblewrap") },
    ]);
    expect(existsSync(join(bench.work, "made-by-the-agent"))).toBe(false);
    const named = await run("local");
    expect(lines(named.out), named.err).toEqual([{ exitCode: 0 }]);
    expect(named.err).toContain("no isolation");
    expect(existsSync(join(bench.work, "made-by-the-agent"))).toBe(true);
  });

  it("a session that was made in bwrap never goes on without it, with any default of the server", async () => {
    const here = await bench.run([], {
      argv: [...asUser(user), process.execPath, BIN, "run", "--session", "kept", script({ say: "hello" })],
    });
    expect(here, here.err).toMatchObject({ code: 0, out: expect.stringContaining("bwrap sandbox") });
    const ran = await bench.sluice(["run", "--session", "kept", TOUCH]);
    expect(ran.code).toBe(1);
    const argv = bench.argv(BIN, "serve", "--port", "0", "--no-token", "--sandbox", "local");
    const child = bench.start([], { argv, env: NO_DOCKER });
    const url = (await printed(child, /\n/)).trim().split(" ").at(-1) ?? "";
    const client = createClient({ url });
    expect(await client.sessions.get("kept")).toMatchObject({ sandbox: "bwrap" });
    await client.sendMessage("kept", TOUCH).catch(() => {});
    const events = await client.getEvents("kept", { extensions: true });
    const providers = events.filter(({ type }) => type.startsWith("sandbox.")).map(({ data }) => data);
    expect(providers).not.toEqual([]);
    for (const data of providers) expect(data).toMatchObject({ provider: "bwrap" });
    expect(readdirSync(bench.work)).not.toContain("made-by-the-agent");
  });

  it("local refuses a network that it cannot keep", async () => {
    const argv = bench.argv(BIN, "serve", "--port", "0", "--no-token", "--sandbox", "local");
    const child = bench.start([], { argv, env: NO_DOCKER });
    const url = (await printed(child, /\n/)).trim().split(" ").at(-1) ?? "";
    const { sessions } = createClient({ url });
    const refused: SessionSpec["network"][] = ["none", "loopback", { allow: ["example.com"] }];
    for (const [index, network] of refused.entries()) {
      const made = sessions.create(`refused-${index}`, { agent: "scripted", network });
      await expect(made, JSON.stringify(network)).rejects.toMatchObject({ code: "capability_missing" });
    }
    await sessions.create("full", { agent: "scripted", network: "full" });
  });

  it("doctor fails, with the working providers, the reasons and the remedies", async () => {
    const words = await bench.sluice(["doctor"]);
    expect(words.code).toBe(1);
    expect(words.out).toMatch(/^✗ bwrap .*bubblewrap/m);
    expect(words.out).toMatch(/^✗ docker /m);
    expect(words.out).toContain("no isolation: sessions are refused unless --sandbox local");
    const { sandboxes, defaultSandbox } = JSON.parse((await bench.sluice(["doctor", "--json"])).out);
    expect(defaultSandbox).toBe(null);
    expect(sandboxes[0]).toMatchObject({
      id: "bwrap",
      ok: false,
      command: expect.stringContaining("bubblewrap"),
    });
  });
});
