import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import { afterAll, expect, it } from "vitest";
import { createSqliteLog } from "../../src/log/index.ts";
import { createBwrapProvider } from "../../src/sandbox/index.ts";
import { createEngine, type Engine, type EngineOptions } from "../../src/sessions/index.ts";
import {
  ofType,
  openEngine,
  processesWith,
  readAll,
  runTurn,
  say,
  script,
  waitFor,
} from "../support/engine.ts";
import { expectLawful } from "../support/laws.ts";
import { describeBwrap, makeFolder } from "./bwrap-bench.ts";
import { bundleInto } from "../support/bundle.ts";

const CACHE = resolve(import.meta.dirname, "../../node_modules/.cache");
let built: Promise<string> | undefined;

/** Beside the dependencies of the project, where the agent's own file is found, too. */
async function buildProgram(): Promise<string> {
  await mkdir(CACHE, { recursive: true });
  const folder = await mkdtemp(join(CACHE, "sluice-engine-"));
  const input = join(import.meta.dirname, "fixtures", "engine.ts");
  await bundleInto(join(folder, "engine.mjs"), input, {
    external: [/^libsql\b/, "dockerode", "ssh2", "e2b"],
  });
  return folder;
}

afterAll(async () => {
  if (built !== undefined) await rm(await built, { recursive: true, force: true });
});

function inBwrap(folder: string): Pick<EngineOptions, "providers" | "defaultSandbox"> {
  const provider = createBwrapProvider({ root: join(folder, "sandboxes"), hide: [folder] });
  return { providers: [provider], defaultSandbox: "bwrap" };
}

async function withEngine(
  work: (test: Awaited<ReturnType<typeof openEngine>>) => Promise<void>,
): Promise<void> {
  const test = await openEngine(inBwrap(await makeFolder()));
  try {
    await work(test);
  } finally {
    await test.close();
  }
}

async function sandboxOf(engine: Engine, session: string): Promise<string> {
  const events = await readAll(engine.log, session);
  return ofType(events, "sandbox.boot")[0]?.data.sandbox_id ?? "";
}

describeBwrap("the engine with bwrap", () => {
  it("runs turns whose agent works in /workspace", async () => {
    await withEngine(async (test) => {
      await test.engine.create("a", { agent: "scripted" });
      const steps = [
        { shell: "pwd; id -u; echo shell > /workspace/from-shell; ls /mnt/session" },
        { write: { path: "a.txt", content: "written" } },
        { read: "a.txt" },
        { say: "done" },
      ];
      expect((await runTurn(test, "a", script(...steps))).data.status).toBe("completed");
      const files = await test.engine.files("a");
      expect(Buffer.from(await files.read("/workspace/from-shell")).toString()).toBe("shell\n");
      expect(Buffer.from(await files.read("a.txt")).toString()).toBe("written");
      await runTurn(test, "a", script({ say: "$history" }));
      const events = await readAll(test.log, "a");
      expectLawful(events);
      expect(JSON.stringify(events)).toContain("/home/user/workspace\\n1000\\noutputs\\nuploads");
      expect(ofType(events, "sandbox.ready")[0]?.data).toMatchObject({ provider: "bwrap", isolated: true });
    });
  });

  it("interrupts a turn at once, and terminates with no process left", async () => {
    await withEngine(async (test) => {
      await test.engine.create("b", { agent: "scripted" });
      const { after, turnId } = await say(test.engine, "b", script({ shell: "echo on; sleep 1234" }));
      await waitFor(test.log, "b", "item.delta", { after });
      await test.engine.interrupt("b");
      const ended = await waitFor(test.log, "b", "turn.ended", { after });
      expect(ended.data).toMatchObject({ turn_id: turnId, status: "interrupted" });
      expect((await runTurn(test, "b", script({ say: "and on" }))).data.status).toBe("completed");

      const again = await say(test.engine, "b", script({ shell: "setsid sleep 1234 & echo on; sleep 1234" }));
      await waitFor(test.log, "b", "item.delta", { after: again.after });
      const sandbox = await sandboxOf(test.engine, "b");
      expect((await processesWith(sandbox)).length).toBeGreaterThan(3);
      await test.engine.terminate("b");
      expect(await processesWith(sandbox)).toEqual([]);
    });
  });

  it("goes on when the program that ran the engine is killed, and the next one reads to the end", async () => {
    built ??= buildProgram();
    const folder = await makeFolder();
    const text = script({ shell: "for i in $(seq 1 50); do echo $i; sleep 0.02; done; echo the end" });
    const program = spawn(process.execPath, [join(await built, "engine.mjs"), folder, "c", text], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    await once(program.stdout, "data");
    program.kill("SIGKILL");
    await once(program, "exit");

    const log = await createSqliteLog({ folder });
    const engine = await createEngine({ log, dataDir: folder, ...inBwrap(folder) });
    try {
      const ended = await waitFor(log, "c", "turn.ended");
      expect(ended.data.status).toBe("completed");
      const events = await readAll(log, "c");
      expectLawful(events);
      expect(ofType(events, "process.started")).toHaveLength(1);
      expect(JSON.stringify(events)).toContain("the end");
      const sandbox = await sandboxOf(engine, "c");
      await engine.remove("c");
      expect(await processesWith(sandbox)).toEqual([]);
      expect(await readdir(join(folder, "sandboxes"))).toEqual([]);
    } finally {
      await engine.remove("c").catch(() => {});
      await engine.close();
      await log.close();
    }
  });
});
