import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createSqliteLog } from "../../src/log/index.ts";
import type { EventLog } from "../../src/log/index.ts";
import {
  append,
  createSession,
  failsWith,
  isGapless,
  readAll,
  toDeltas,
} from "../../src/log/testkit/suite.ts";
import { buildProgram } from "./program.ts";
import type { Program, RunningProgram } from "./program.ts";

describe("two processes on one database", () => {
  let program: Program;
  let folder: string;
  let log: EventLog;
  let neighbour: RunningProgram;
  const { signal } = new AbortController();
  const tell = (line: string): Promise<string> => {
    neighbour.child.stdin?.write(`${line}\n`);
    return neighbour.line(new RegExp(`^${line}: `)).then((answer) => answer.slice(line.length + 2));
  };

  beforeAll(async () => (program = await buildProgram("neighbour")));
  afterAll(() => program.dispose());
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "sluice-two-"));
    log = createSqliteLog({ folder });
    await createSession(log, "s");
    neighbour = program.start(folder);
    await neighbour.line(/ready/);
  });
  afterEach(async () => {
    neighbour.child.stdin?.end();
    expect(await neighbour.exit()).toMatchObject({ code: 0, stderr: "" });
    await log.close();
    await rm(folder, { recursive: true });
  });

  it("wake each other's readers", async () => {
    const followed = tell("follow s 60");
    for (let n = 0; n < 6; n++) await append(log, "s", toDeltas(10));
    expect(await followed).toBe("60");

    const woken = log.moved("s", 60, { signal });
    expect(await tell("claim s 1")).toBe("2");
    expect(await tell("append s 5")).toBe("65");
    await woken;
    isGapless(await log.read("s", { after: 60, limit: 100 }), 61);
  });

  it("wake only the readers of written or removed sessions, among many", async () => {
    const many = Array.from({ length: 300 }, (_, index) => `idle-${index}`);
    for (const id of [...many, "gone"]) await createSession(log, id);
    for (const id of [...many, "gone", "s"]) await append(log, id, toDeltas(2));
    const woken: string[] = [];
    const leaving = new AbortController();
    const waiting = [...many, "gone", "s"].map((id) =>
      log.moved(id, 2, { signal: leaving.signal }).then(() => woken.push(id)),
    );
    for (const each of waiting) each.catch(() => {});
    expect(await tell("claim s 1")).toBe("2");
    expect(await tell("append s 5")).toBe("7");
    await waiting.at(-1);
    expect(await tell("remove gone")).toBe("undefined");
    await waiting.at(-2);
    expect(await tell("append s 1")).toBe("8");
    await log.moved("s", 7, { signal });
    leaving.abort();
    await Promise.allSettled(waiting);
    expect(woken).toEqual(["s", "gone"]);
    isGapless(await log.read("s", { after: 2, limit: 100 }), 3);
  });

  it("never serve a stale page of a session that the other has taken over", async () => {
    await append(log, "s", toDeltas(3));
    expect(await log.read("s", { after: 0, limit: 10 })).toHaveLength(3);
    await tell("claim s 1");
    expect(await tell("append s 4")).toBe("7");
    expect(await log.read("s", { after: 3, limit: 10 })).toHaveLength(4);
    await log.moved("s", 6, { signal });
    await failsWith("fenced", append(log, "s", toDeltas(1)));
    const epoch = await log.claim("s", { owner: "back", from: 2 });
    expect((await append(log, "s", toDeltas(1), { epoch })).first).toBe(8);
    isGapless(await readAll(log, "s"), 1);
  });

  it("fence each other", async () => {
    await tell("claim s 1");
    await failsWith("fenced", append(log, "s", toDeltas(1)));
    await failsWith("fenced", log.claim("s", { owner: "late", from: 1 }));
    await log.claim("s", { owner: "back", from: 2 });
    expect(await tell("append s 1")).toBe("failed fenced");
    expect(await tell("create s")).toBe("failed session_already_exists");
  });

  it("wake readers of a session that the other removes, also when its name is used again", async () => {
    await append(log, "s", toDeltas(3));
    const woken = log.moved("s", 3, { signal });
    await tell("remove s");
    await woken;
    await failsWith("session_not_found", log.read("s", { after: 3, limit: 1 }));
    await tell("create s");
    expect(await log.read("s", { after: 0, limit: 10 })).toEqual([]);
    await failsWith("fenced", append(log, "s", toDeltas(1)));
    const epoch = await log.claim("s", { owner: "back", from: 2 });
    expect((await append(log, "s", toDeltas(1), { epoch })).first).toBe(1);
  });

  it("open a new folder at the same moment, all of them", async () => {
    const fresh = join(folder, "fresh");
    const others = Array.from({ length: 4 }, () => program.start(fresh));
    for (const [n, other] of others.entries()) {
      other.child.stdin?.end(`create s${n}\n`);
    }
    for (const [n, other] of others.entries()) {
      expect(await other.exit()).toMatchObject({ code: 0, stderr: "" });
      expect(other.lines).toContain(`create s${n}: s${n}`);
    }
  });

  it("append at the same time without a gap or a loss", async () => {
    await createSession(log, "t");
    await tell("claim s 1");
    const theirs = Array.from({ length: 30 }, (_, n) => tell(`append s ${n + 1}`));
    for (let n = 0; n < 200; n++) {
      await append(log, "t", toDeltas(5));
      if (n % 10 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    await Promise.all(theirs);
    for (const [id, count] of [
      ["s", 465],
      ["t", 1000],
    ] as const) {
      const events = await readAll(log, id);
      expect(events).toHaveLength(count);
      isGapless(events, 1);
    }
  });
});
