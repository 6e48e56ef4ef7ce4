import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import type { SluiceEvent } from "../../../src/contract/index.ts";
import { script } from "../../support/engine.ts";
import { expectLawful } from "../../support/laws.ts";
import { startServer, type TestServer } from "../../support/server.ts";
import { makeFolder, onCleanup } from "../remote/workbench.ts";
import { startE2b, type E2bEmulator } from "./e2b-emulator.ts";

const LINES = 300;
const ALL = Array.from({ length: LINES }, (_, n) => `line ${n} `);
const COUNT = script(
  { say: "starting" },
  { shell: `i=0; while [ $i -lt ${LINES} ]; do echo "line $i "; i=$((i+1)); sleep 0.02; done` },
  { write: { path: "made.txt", content: "far" } },
  { say: "finished" },
);

async function untilEnd(server: TestServer, session: string, after = 0): Promise<SluiceEvent[]> {
  const events: SluiceEvent[] = [];
  for await (const event of server.client.subscribe(session, { after, extensions: true })) {
    events.push(event);
    if (event.type === "turn.ended") break;
  }
  return events;
}

function printed(events: readonly SluiceEvent[]): string[] {
  const deltas = events.filter((event) => event.type === "item.delta").map((event) => event.data.delta);
  return deltas.join("").match(/line \d+ /g) ?? [];
}

async function open(): Promise<{ e2b: E2bEmulator; server: TestServer }> {
  const e2b = await startE2b();
  const server = await startServer({ env: e2b.env });
  onCleanup(() => server.close());
  return { e2b, server };
}

describe("sessions on e2b, by its own SDK against an emulator", { timeout: 300_000 }, () => {
  it("have every line and every input once through a kill of the server, and end with their machine", async () => {
    const { e2b, server } = await open();
    const { client } = server;
    await client.sessions.create("s", { agent: "scripted", sandbox: "e2b" });
    await client.sendMessage("s", COUNT);
    for await (const event of client.subscribe("s", { extensions: true }))
      if (event.type === "item.delta" && event.data.delta.includes("line 40 ")) break;
    await server.kill();
    // E2B is away when the next server starts.
    e2b.fail(503);
    await server.start();
    await sleep(1_000);
    e2b.fail(undefined);
    const events = await untilEnd(server, "s");
    expectLawful(events);
    expect(events.at(-1)?.data).toMatchObject({ status: "completed" });
    expect(printed(events)).toEqual(ALL);
    for (const type of ["input.accepted", "process.started", "sandbox.boot"])
      expect(
        events.filter((event) => event.type === type),
        type,
      ).toHaveLength(1);
    expect(events.find((event) => event.type === "sandbox.ready")?.data).toMatchObject({
      provider: "e2b",
      isolated: true,
      message: expect.stringContaining("sleeps after 60 minutes"),
    });
    expect(await (await server.fetch("/v1/fs/file?session=s&path=made.txt")).text()).toBe("far");

    // A machine that E2B has ended is replaced, and the log tells it.
    const { eventCount } = await client.sessions.get("s");
    for (const { id } of e2b.machines.all()) await e2b.machines.remove(id);
    for await (const event of client.subscribe("s", { after: eventCount, extensions: true }))
      if (event.type === "process.ended") break;
    await client.sendMessage("s", script({ say: "again" }));
    const later = await untilEnd(server, "s", eventCount);
    expect(later.at(-1)?.data).toMatchObject({ status: "completed" });
    expect(later.map(({ type }) => type)).toEqual(expect.arrayContaining(["sandbox.boot", "sandbox.ready"]));
    expect(e2b.machines.all()).toHaveLength(1);

    for (const text of [JSON.stringify([...events, ...later]), server.stderr()])
      expect(text).not.toContain(e2b.key);
    await client.sessions.delete("s");
    expect(e2b.machines.all()).toEqual([]);
  });

  it("doctor says what is missing: the key, a good key, the package", async () => {
    const e2b = await startE2b();
    const bin = resolve(import.meta.dirname, "../../../bin/sluice");
    const doctor = async (env: Record<string, string>): Promise<unknown> => {
      const args = ["doctor", "--json", "--sandbox", "e2b", "--data", await makeFolder()];
      const given = { ...process.env, E2B_API_KEY: "", ...env };
      const { stdout } = await promisify(execFile)(bin, args, { env: given }).catch(
        (error: { stdout: string }) => error,
      );
      const { sandboxes } = JSON.parse(stdout) as { sandboxes: { id: string }[] };
      return sandboxes.find(({ id }) => id === "e2b");
    };
    expect(await doctor(e2b.env)).toMatchObject({ ok: true });
    expect(await doctor({})).toMatchObject({ ok: false, hint: expect.stringContaining("E2B_API_KEY") });
    expect(await doctor({ ...e2b.env, E2B_API_KEY: "e2b_no" })).toMatchObject({
      ok: false,
      hint: expect.stringContaining("refuses the key of E2B_API_KEY"),
    });

    const built = resolve(import.meta.dirname, "../../../dist/sandbox/e2b/index.js");
    const hooks = `export const resolve = (name, context, next) => { if (name === "e2b") throw new Error("not found"); return next(name, context); }`;
    const program = `import { register } from "node:module";
register("data:text/javascript,${encodeURIComponent(hooks)}");
const { createE2bProvider } = await import(${JSON.stringify(built)});
console.log(JSON.stringify(await createE2bProvider({ records: "/nonexistent" }).detect()));`;
    const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", program], {
      env: { ...process.env, ...e2b.env },
    });
    expect(JSON.parse(stdout)).toEqual({
      available: false,
      reason: "The sandbox e2b needs the package e2b. Run: npm install e2b",
      remedy: "npm install e2b",
    });
    const { peerDependenciesMeta } = JSON.parse(
      readFileSync(resolve(import.meta.dirname, "../../../package.json"), "utf8"),
    ) as { peerDependenciesMeta: Record<string, unknown> };
    expect(peerDependenciesMeta["e2b"]).toEqual({ optional: true });
  });
});
