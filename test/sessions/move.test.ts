import { EventEmitter, once } from "node:events";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { createLocalProvider } from "../../src/sandbox/index.ts";
import { claude } from "../../src/harness/claude/harness.ts";
import type { Harness } from "../../src/harness/port.ts";
import { scripted } from "../../src/harness/scripted/harness.ts";
import type { SandboxProvider } from "../../src/sandbox/port.ts";
import type { EngineOptions } from "../../src/sessions/index.ts";
import {
  ofType,
  openEngine,
  readAll,
  runTurn,
  say,
  script,
  SCRIPTED,
  waitFor,
  type TestEngine,
} from "../support/engine.ts";
import { assistantTexts, expectLawful } from "../support/laws.ts";

let test: TestEngine;
let folder: string;
afterEach(async () => {
  await test.close();
  await rm(folder, { recursive: true, force: true });
});

/** A second name for real local sandboxes; `create` can be held up, or fail. */
function named(root: string, id: string, before: () => Promise<void> = async () => {}): SandboxProvider {
  const provider = createLocalProvider({ root });
  return {
    id,
    isolated: false,
    detect: () => provider.detect(),
    create: async (spec, claim) => (await before(), provider.create(spec, claim)),
    connect: (sandbox, claim) => provider.connect(sandbox, claim),
    list: () => provider.list!(),
  };
}

function makeGate(): { readonly opened: Promise<void>; readonly open: () => void } {
  const gate = new EventEmitter();
  const opened = once(gate, "open").then(() => {});
  return { opened, open: () => void gate.emit("open") };
}

interface Opened {
  readonly roots: { readonly here: string; readonly there: string };
  before: () => Promise<void>;
}

async function open(options: Partial<EngineOptions> = {}): Promise<Opened> {
  const opened: { roots?: Opened["roots"]; before: () => Promise<void> } = { before: async () => {} };
  folder = await mkdtemp(join(tmpdir(), "sluice-move-"));
  const roots = { here: join(folder, "here"), there: join(folder, "there") };
  const providers = [named(roots.here, "here"), named(roots.there, "there", () => opened.before())];
  test = await openEngine({ providers, defaultSandbox: "here", ...options });
  return Object.assign(opened, { roots });
}

const text = async (path: string): Promise<string> =>
  Buffer.from(await (await test.engine.files("s")).read(path)).toString();

async function makeSession(): Promise<void> {
  await test.engine.create("s", SCRIPTED);
  await runTurn(test, "s", script({ write: { path: "a.txt", content: "first" } }));
}

const sandboxes = (root: string): Promise<string[]> => readdir(root).catch(() => []);

it("a session goes on in another sandbox with its files and its agent's memory", async () => {
  const { roots } = await open();
  await makeSession();
  const moved = await test.engine.move("s", "there", { key: "k" });
  expect(moved.sandbox).toBe("there");
  expect((await test.engine.spec("s")).sandbox).toBe("there");
  expect(await sandboxes(roots.here)).toEqual([]);
  expect(await text("a.txt")).toBe("first");
  const before = (await readAll(test.log, "s")).length;
  await test.engine.move("s", "there", { key: "k" });
  await test.engine.move("s", "there");
  expect(await readAll(test.log, "s")).toHaveLength(before);

  await test.restart();
  await runTurn(test, "s", script({ write: { path: "b.txt", content: "second" } }, { say: "$history" }));
  const events = await readAll(test.log, "s");
  expectLawful(events);
  expect(assistantTexts(events).at(-1)).toContain('"content":"first"');
  // Restored files are no changes of the agent.
  const changed = ofType(events, "file.changed").filter(({ sequence }) => sequence > before);
  // A written file may be told as its creation and a change.
  expect([...new Set(changed.map(({ data }) => data.path))]).toEqual([expect.stringMatching(/b\.txt$/)]);
  expect(events.filter(({ type }) => type === "sandbox.boot")).toHaveLength(1);
  expect(ofType(events, "sandbox.moving")[0]?.data.provider).toBe("there");
  expect(ofType(events, "sandbox.connected")[0]?.data).toMatchObject({ provider: "there", isolated: false });
});

it("the memory of an agent that finds it by the path of its workspace is there under the new path", async () => {
  await open({ harnesses: [{ ...scripted, memoryFolders: claude.memoryFolders! } as Harness] });
  await test.engine.create("s", SCRIPTED);
  const memory = '"$HOME/.claude/projects/$(pwd -P | tr -c "a-zA-Z0-9\\n" -)"';
  await runTurn(test, "s", script({ shell: `mkdir -p ${memory}; echo kept > ${memory}/x.jsonl` }));
  await test.engine.move("s", "there");
  await runTurn(test, "s", script({ shell: `cat ${memory}/x.jsonl` }, { say: "$history" }));
  expect(assistantTexts(await readAll(test.log, "s")).at(-1)).toContain("kept");
});

it("a session without a sandbox only changes its settings", async () => {
  const { roots } = await open();
  await test.engine.create("s", SCRIPTED);
  expect((await test.engine.move("s", "there")).sandbox).toBe("there");
  await runTurn(test, "s", script({ write: { path: "a.txt", content: "x" } }));
  expect(await sandboxes(roots.here)).toEqual([]);
  expect(await text("a.txt")).toBe("x");
});

it("a failure leaves the session where it was, and usable", async () => {
  const opened = await open();
  await makeSession();
  opened.before = () => Promise.reject(new Error("no room"));
  await expect(test.engine.move("s", "there")).rejects.toThrow("no room");
  const told = ofType(await readAll(test.log, "s"), "sandbox.connected").at(-1);
  expect(told?.data).toMatchObject({
    provider: "here",
    message: expect.stringContaining("the move to there failed: no room"),
  });
  expect((await test.engine.info("s")).sandbox).toBe("here");
  await runTurn(test, "s", script({ say: "$history" }));
  expect(await text("a.txt")).toBe("first");
  expect(await sandboxes(opened.roots.there)).toEqual([]);
});

it("a message waits for the end of the move, and other uses of the sandbox are refused", async () => {
  const opened = await open();
  await makeSession();
  const gate = makeGate();
  opened.before = () => gate.opened;
  const moving = test.engine.move("s", "there");
  const begun = await waitFor(test.log, "s", "sandbox.moving");
  const { turnId } = await say(test.engine, "s", script({ write: { path: "late.txt", content: "late" } }));
  const busy = { code: "session_busy" };
  await expect(test.engine.move("s", "there")).rejects.toMatchObject(busy);
  await expect(test.engine.exec("s", { command: "true" })).rejects.toMatchObject(busy);
  await expect(test.engine.files("s")).rejects.toMatchObject(busy);
  await expect(test.engine.checkpoint("s")).rejects.toMatchObject(busy);
  await expect(test.engine.pause("s")).rejects.toMatchObject(busy);
  gate.open();
  await moving;
  const ended = await waitFor(test.log, "s", "turn.ended", { after: begun.sequence });
  expect(ended.data).toMatchObject({ turn_id: turnId, status: "completed" });
  expect(await text("late.txt")).toBe("late");
  const events = await readAll(test.log, "s");
  const arrived = ofType(events, "sandbox.connected")[0]?.sequence ?? 0;
  const started = events.find(({ type, sequence }) => type === "turn.started" && sequence > begun.sequence);
  expect(started?.sequence).toBeGreaterThan(arrived);
});

it("the end of a server in the middle of a move leaves the session in its old sandbox", async () => {
  const opened = await open();
  await makeSession();
  const gate = makeGate();
  opened.before = () => gate.opened;
  const moving = test.engine.move("s", "there");
  moving.catch(() => {});
  await waitFor(test.log, "s", "sandbox.moving");
  opened.before = async () => {};
  await test.restart();
  gate.open();
  await expect(moving).rejects.toThrow();
  expect((await test.engine.info("s")).sandbox).toBe("here");
  expect(await text("a.txt")).toBe("first");
  expect(ofType(await readAll(test.log, "s"), "sandbox.connected").at(-1)?.data.message).toContain(
    "interrupted",
  );
  expect((await test.engine.move("s", "there")).sandbox).toBe("there");
  expect(await text("a.txt")).toBe("first");
});

it("a running turn, an ended session and an unknown sandbox are refused with what to do", async () => {
  await open();
  await test.engine.create("s", SCRIPTED);
  const { after } = await say(test.engine, "s", script({ shell: "sleep 1234" }));
  await waitFor(test.log, "s", "turn.started", { after });
  await expect(test.engine.move("s", "there")).rejects.toMatchObject({
    code: "session_busy",
    message: expect.stringContaining("wait for its end, or interrupt it"),
  });
  await test.engine.interrupt("s");
  await expect(test.engine.move("s", "nowhere")).rejects.toMatchObject({ code: "unsupported_sandbox" });
  await test.engine.terminate("s");
  await expect(test.engine.move("s", "there")).rejects.toMatchObject({ code: "session_ended" });
});
