import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createClient, type SluiceClient } from "../../src/client/index.ts";
import { readProcesses, readPs } from "../../src/sandbox/host/processes/procfs.ts";
import { printed } from "../cli/workbench.ts";
import { SERVER_USERS } from "./fortress-bench.ts";
import { asUser, BIN, Elsewhere, NO_DOCKER } from "./machines.ts";

const DARWIN = join(import.meta.dirname, "darwin.mjs");
/** Without the right to make control groups, so that nothing but `ps` tells whose a process is. */
const user = SERVER_USERS.at(-1)!;

describe("on a system without /proc", () => {
  let bench: Elsewhere;
  let client: SluiceClient;
  beforeEach(async () => {
    bench = new Elsewhere("no bwrap", user);
    const args = ["serve", "--port", "0", "--no-token", "--sandbox", "local"];
    const child = bench.start([], { argv: sluice(...args), env: NO_DOCKER });
    client = createClient({ url: (await printed(child, /\n/)).trim().split(" ").at(-1) ?? "" });
    await client.sessions.create("one", { agent: "scripted" });
  });
  afterEach(() => bench.close());

  it("doctor says that bwrap needs Linux, and names Docker as the remedy", async () => {
    const { out } = await bench.run([], { argv: sluice("doctor", "--json"), env: NO_DOCKER });
    expect(JSON.parse(out).sandboxes).toMatchObject([
      { id: "bwrap", ok: false, hint: "bubblewrap needs Linux" },
      { id: "docker", ok: false, command: "open -a Docker" },
      { id: "local", ok: true, isolated: false },
    ]);
  });

  it("a command ends at its timeout", async () => {
    expect(await run("sleep 7101", { timeoutMs: 300 })).toMatchObject({ status: "failed" });
    expect(running("7101")).toEqual([]);
  });

  it("a command ends when it is interrupted", async () => {
    const { commandId, after } = await client.runCommand("one", {
      command: "echo up; sleep 7102",
    });
    for await (const { type } of client.subscribe("one", { after, extensions: true }))
      if (type === "command.output") break;
    await client.interrupt("one");
    expect((await end(commandId, after)).status).toBe("interrupted");
    expect(running("7102")).toEqual([]);
  });

  it("terminating ends the background processes of a command", async () => {
    await run("sleep 7103 & echo done");
    expect(running("7103")).toHaveLength(1);
    await client.sessions.delete("one");
    expect(running("7103")).toEqual([]);
  });

  it("a pause is refused and not logged; the shortcomings of local are told", async () => {
    await run("true");
    await expect(client.pause("one")).rejects.toMatchObject({ code: "capability_missing" });
    const events = await client.getEvents("one", { extensions: true });
    expect(events.filter(({ type }) => type === "sandbox.paused")).toEqual([]);
    expect(events.find(({ type }) => type === "sandbox.ready")?.data).toMatchObject({
      isolated: false,
      message: expect.stringContaining("nothing can be paused"),
    });
  });

  it("ps tells of the same processes as /proc", async () => {
    const [byPs, byProc] = [await readPs(), await readProcesses()];
    const own = byProc.find(({ pid }) => pid === process.pid);
    expect(byPs.find(({ pid }) => pid === process.pid)).toMatchObject({
      parent: own?.parent,
      group: own?.group,
      start: expect.stringMatching(/\d{4}$/),
    });
  });

  function sluice(...args: string[]): string[] {
    return [...asUser(user), process.execPath, "--import", DARWIN, BIN, ...args];
  }

  async function run(command: string, options: { timeoutMs?: number } = {}) {
    const { commandId, after } = await client.runCommand("one", { command, ...options });
    return end(commandId, after);
  }

  async function end(commandId: string, after: number): Promise<{ status: string }> {
    for await (const { type, data } of client.subscribe("one", { after, extensions: true }))
      if (type === "command.ended" && data.command_id === commandId) return data;
    throw new Error("the stream ended before the command");
  }
});

function running(seconds: string): string[] {
  const list = execFileSync("ps", ["-axo", "command="], { encoding: "utf8" });
  return list.split("\n").filter((line) => line === `sleep ${seconds}`);
}
