import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import * as fc from "fast-check";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import type { EventDraft } from "../../src/contract/index.ts";
import type { Harness } from "../../src/harness/port.ts";
import { scripted } from "../../src/harness/scripted/harness.ts";
import type { AcceptedInput, SessionInput } from "../../src/sessions/index.ts";
import { expectLawful } from "../support/laws.ts";
import { END, factAgent, tell } from "./fact-agent.ts";
import {
  ofType,
  openEngine,
  processesWith,
  readAll,
  runTurn,
  say,
  script,
  waitFor,
  type TestEngine,
} from "../support/engine.ts";

const LIMITS = { interruptMs: 300, gentleMs: 200, stopMs: 200 };

/** Its first greeting fails, as on a disk that was full for a moment. */
let greetings = 0;
const shy = {
  ...factAgent(`echo ready; while read -r line; do case $line in prompt*) ${tell(END)}\n;; esac; done`),
  greet: () => {
    greetings += 1;
    if (greetings === 1) throw new Error("no words");
    return [];
  },
};

/** The events of each session, also of a deleted one. */
const committed = new Map<string, EventDraft[]>();

let test: TestEngine;
beforeAll(async () => {
  test = await openEngine({
    limits: LIMITS,
    defaultSandbox: "local",
    harnesses: [scripted as Harness, shy],
    onCommit: (session, events) => {
      committed.set(session, [...(committed.get(session) ?? []), ...events]);
    },
  });
});
afterAll(() => test.close());

it("a start that fails halfway leaves no process, and the next message starts another", async () => {
  await test.engine.create("shy", { agent: "facts", sandbox: "local" });
  const failed = await runTurn(test, "shy", "first");
  expect(failed.data).toMatchObject({ status: "failed", error: { message: "no words" } });
  const sandbox = ofType(await readAll(test.log, "shy"), "sandbox.boot")[0]?.data.sandbox_id ?? "none";
  expect(await processesWith(sandbox)).toEqual([]);
  expect((await runTurn(test, "shy", "second")).data.status).toBe("completed");
  const events = await readAll(test.log, "shy");
  expectLawful(events);
  expect(ofType(events, "process.ended").map((event) => event.data.process)).toEqual([1]);
});

/** The codes with which a session may refuse a call. */
const REFUSALS = ["session_ended", "session_busy", "draining", "stream_error", "session_not_found"];

function send(session: string, text: string, options: Partial<SessionInput>): Promise<AcceptedInput> {
  return test.engine.send(session, { content: [{ type: "text", text }], via: "test", ...options });
}

type Act = (session: string) => Promise<unknown>;
const acts: Record<string, Act> = {
  send: (session) => say(test.engine, session, script({ say: "a" }, { sleep: 5 }, { say: "b" })),
  "send at length": (session) => say(test.engine, session, script({ say: "a" }, { sleep: 60_000 })),
  "send into a turn": (session) => send(session, script({ say: "joined" }), { delivery: "steer" }),
  "send with a timeout": (session) =>
    send(session, script({ say: "a" }, { sleep: 60_000 }), { options: { timeoutMs: 20 } }),
  crash: (session) => say(test.engine, session, script({ say: "so far" }, { signal: "SIGKILL" })),
  interrupt: (session) => test.engine.interrupt(session),
  stop: (session) => test.engine.interrupt(session, { stop: true }),
  pause: (session) => test.engine.pause(session),
  resume: (session) => test.engine.resume(session),
  terminate: (session) => test.engine.terminate(session),
  delete: (session) => test.engine.remove(session),
  files: async (session) => (await test.engine.files(session)).write("note.txt", Buffer.from("a note")),
  reopen: () => test.restart(),
};

async function isDeleted(session: string): Promise<boolean> {
  return (await test.log.find(session)) === undefined;
}

/** Nothing is left of a deleted session, and its id is free. */
async function expectDeleted(session: string): Promise<void> {
  const events = committed.get(session) ?? [];
  expect(events.at(-1)?.type).toBe("session.deleted");
  const turns = (type: "turn.started" | "turn.ended"): string[] =>
    events.flatMap((event) => (event.type === type ? [event.data.turn_id] : []));
  expect(turns("turn.ended")).toEqual(turns("turn.started"));
  for (const event of events)
    if (event.type === "sandbox.boot") expect(await processesWith(event.data.sandbox_id)).toEqual([]);
  const sandboxes = join(test.folder, "sandboxes");
  for (const name of await readdir(sandboxes))
    expect(await readFile(join(sandboxes, name, "sandbox.json"), "utf8")).not.toContain(`"${session}"`);
  expect(await readdir(join(test.folder, "spools"))).not.toContain(session);
  await test.engine.create(session, { agent: "scripted", sandbox: "local" });
  expect((await runTurn(test, session, script({ say: "anew" }))).data.status).toBe("completed");
}

it("for every order of calls, the log of a session is whole and nothing hangs", async () => {
  let runs = 0;
  const names = fc.array(fc.tuple(fc.constantFrom(...Object.keys(acts)), fc.nat(40)), {
    minLength: 3,
    maxLength: 7,
  });
  const holds = fc.asyncProperty(names, async (order) => {
    runs += 1;
    const session = `any-${runs}`;
    await test.engine.create(session, { agent: "scripted", sandbox: "local", lasting: true });
    // A message into a running turn has the id of that turn.
    const accepted = new Set<string>();
    const under: Promise<void>[] = [];
    for (const [name, ms] of order) {
      const act = (acts[name] as Act)(session).then(
        (answer) => {
          const { turnId, inputId } = (answer ?? {}) as { turnId?: string; inputId?: string };
          if (inputId !== undefined && turnId !== undefined) accepted.add(turnId);
        },
        (error: { code?: string }) => expect(REFUSALS).toContain(error.code),
      );
      act.catch(() => {});
      under.push(act);
      // A restart needs the end of the old engine; all else may overlap.
      if (name === "reopen") await Promise.allSettled(under);
      await new Promise((resolve) => setTimeout(resolve, ms));
    }
    // Waiting turns are resumed and stopped.
    const isQuiet = async (): Promise<boolean> => {
      await test.engine.resume(session).catch(() => {});
      await test.engine.interrupt(session).catch(() => {});
      if (await isDeleted(session)) return true;
      const { status, queued } = await test.engine.info(session);
      return (status === "idle" && queued === 0) || status === "ended";
    };
    await vi.waitUntil(isQuiet, { timeout: 60_000, interval: 50 });
    await Promise.all(under);
    if (await isDeleted(session)) return expectDeleted(session);
    const events = await readAll(test.log, session);
    expectLawful(events);
    const ended = ofType(events, "turn.ended").map((event) => event.data.turn_id);
    expect(ended.toSorted()).toEqual([...accepted].toSorted());
    expect(new Set(ended).size).toBe(ended.length);
    // The session still works, or has ended.
    const { ended: isOver } = await test.engine.info(session);
    if (!isOver) expect((await runTurn(test, session, script({ say: "on" }))).data.status).toBe("completed");
    else if (ofType(events, "process.started").length > 0) await waitFor(test.log, session, "process.ended");
  });
  await fc.assert(holds, {
    numRuns: 10,
    endOnFailure: true,
    examples: [
      [
        [
          ["send", 0],
          ["send at length", 30],
          ["stop", 0],
          ["terminate", 0],
        ],
      ],
      [
        [
          ["send at length", 30],
          ["send", 0],
          ["pause", 0],
          ["delete", 0],
          ["files", 0],
          ["send", 0],
        ],
      ],
      // The server closes in the middle of a deletion.
      [
        [
          ["send at length", 200],
          ["send", 300],
          ["delete", 100],
          ["reopen", 0],
        ],
      ],
      [
        [
          ["crash", 40],
          ["interrupt", 0],
          ["send", 0],
          ["pause", 0],
          ["reopen", 0],
        ],
      ],
    ],
  });
}, 180_000);
