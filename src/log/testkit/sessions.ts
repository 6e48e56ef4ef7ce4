import assert from "node:assert/strict";
import type { SessionRow } from "../port.ts";
import { append, createSession, failsWith, isGapless, readAll, TIME, toDeltas, type Suite } from "./suite.ts";

export function sessions(suite: Suite): void {
  suite.it("creates a session once, also when callers race", async ({ log }) => {
    const attempts = await Promise.allSettled(Array.from({ length: 5 }, () => createSession(log, "one")));
    assert.equal(attempts.filter((attempt) => attempt.status === "fulfilled").length, 1);
    await failsWith("session_already_exists", createSession(log, "one"));
    const row = await log.find("one");
    assert.equal(row?.spec.title, "about one");
    assert.deepEqual(
      { head: row?.head, floor: row?.floor, epoch: row?.epoch, owner: row?.owner, active: row?.active },
      { head: 0, floor: 0, epoch: 1, owner: "first", active: false },
    );
    assert.equal(row?.spool, undefined);
    assert.equal(row?.snapshot, undefined);
  });

  suite.it("knows no session that was never created", async ({ log }) => {
    assert.equal(await log.find("none"), undefined);
    assert.equal(await log.recall("none", "key"), undefined);
    await failsWith("session_not_found", append(log, "none", toDeltas(1)));
    await failsWith("session_not_found", log.read("none", { after: 0, limit: 1 }));
    await failsWith("session_not_found", log.claim("none", { owner: "x", from: 1 }));
    await failsWith("session_not_found", log.trim("none", 1));
    await failsWith("session_not_found", log.remove("none"));
  });

  suite.it("creates many sessions at once, and one of two with the same id", async ({ log }) => {
    const asked = ["a", "b", "a", "c"].map((id) => createSession(log, id));
    const made = await Promise.allSettled(asked);
    assert.deepEqual(
      made.map(({ status }) => status),
      ["fulfilled", "fulfilled", "rejected", "fulfilled"],
    );
    const rows = await log.list({ limit: 9 });
    assert.deepEqual(
      rows.map(({ id }) => id),
      ["c", "b", "a"],
    );
    assert.equal(new Set(rows.map(({ ordinal }) => ordinal)).size, 3);
  });

  suite.it("returns a new session as it is found later", async ({ log }) => {
    const spec = { agent: "scripted", title: "about it" };
    for (const tenant of [undefined, "one", "two"]) {
      // The second and the third session have the epoch of the removed one before them.
      if (tenant !== undefined) await log.remove("s");
      const made = await log.create({ id: "s", spec, owner: "first", time: TIME, tenant });
      assert.deepEqual(await log.find("s"), made);
    }
  });

  suite.it("lists the newest first, page by page", async ({ log }) => {
    for (let n = 1; n <= 7; n++) await createSession(log, `s${n}`);
    await log.remove("s3");
    const seen: string[] = [];
    let before: number | undefined;
    for (;;) {
      const page = await log.list({ limit: 2, ...(before !== undefined && { before }) });
      if (page.length === 0) break;
      seen.push(...page.map((row) => row.id));
      before = page.at(-1)?.ordinal;
    }
    assert.deepEqual(seen, ["s7", "s6", "s5", "s4", "s2", "s1"]);
  });

  suite.it("lists the longest resting first, page by page, and those whose time is over", async ({ log }) => {
    for (let n = 1; n <= 5; n++) {
      const spec = { agent: "scripted", ...(n % 2 === 1 && { ttl: n }) };
      await log.create({ id: `s${n}`, spec, owner: "first", time: TIME + (n === 2 ? 9_000 : 1_000) });
    }
    await append(log, "s1", toDeltas(1), { time: TIME + 2_000 });
    const rest = async (before: number, byTtl = false): Promise<string[]> => {
      const seen: SessionRow[] = [];
      for (;;) {
        const after = seen.at(-1);
        const page = await log.resting({ before, byTtl, limit: 2, ...(after && { after }) });
        if (page.length === 0) return seen.map(({ id }) => id);
        seen.push(...page);
      }
    };
    assert.deepEqual(await rest(TIME + 9_001), ["s3", "s4", "s5", "s1", "s2"]);
    assert.deepEqual(await rest(TIME + 9_000), ["s3", "s4", "s5", "s1"]);
    assert.deepEqual(await rest(TIME + 1_000), []);
    assert.deepEqual(await rest(TIME + 3_001, true), ["s1"]);
    assert.deepEqual(await rest(TIME + 4_001, true), ["s3", "s1"]);
    assert.deepEqual(await rest(Number.MAX_SAFE_INTEGER, true), ["s3", "s5", "s1"]);
  });

  suite.it("reports the size of its data", async ({ log }) => {
    await createSession(log, "s");
    const before = await log.size();
    for (let n = 0; n < 4; n++)
      await append(log, "s", [
        { type: "item.delta", source: "agent", data: { item_id: "i", delta: `${n}`.repeat(100_000) } },
      ]);
    const full = await log.size();
    assert.ok(full - before > 390_000, `${before}, ${full}`);
    await log.trim("s", 2);
    const trimmed = await log.size();
    assert.ok(full - trimmed > 190_000, `${full}, ${trimmed}`);
    await log.remove("s");
    assert.ok(trimmed - (await log.size()) > 190_000);
  });

  suite.it("remembers which sessions were left active", async ({ log }) => {
    for (const id of ["a", "b", "c"]) await createSession(log, id);
    await append(log, "a", toDeltas(1), { active: true });
    await append(log, "b", toDeltas(1), { active: true });
    await append(log, "b", [], { active: false });
    await append(log, "a", toDeltas(1));
    assert.deepEqual(
      (await log.active()).map((row) => row.id),
      ["a"],
    );
  });

  suite.it(
    "lets a new session have the id of a deleted one, with other event ids and another writer",
    async ({ log }) => {
      await createSession(log, "again");
      await append(log, "again", toDeltas(1));
      const [before] = await readAll(log, "again");
      await log.remove("again");
      assert.equal(await log.find("again"), undefined);
      const { epoch } = await log.create({
        id: "again",
        spec: { agent: "scripted" },
        owner: "second",
        time: 1,
      });
      assert.deepEqual(await readAll(log, "again"), []);
      await failsWith("fenced", append(log, "again", toDeltas(1)));
      await append(log, "again", toDeltas(1), { epoch });
      const [after] = await readAll(log, "again");
      assert.equal(after?.sequence, 1);
      assert.notEqual(JSON.parse(after?.body ?? "").event_id, JSON.parse(before?.body ?? "").event_id);
    },
  );
}

export function keeping(suite: Suite): void {
  suite.it("keeps the spool mark and the snapshot of the newest batch that had them", async ({ log }) => {
    await createSession(log, "s");
    await append(log, "s", toDeltas(2), { spool: { process: 1, offset: 100, checkpoint: { open: ["x"] } } });
    await append(log, "s", toDeltas(2), { snapshot: { status: "idle" }, time: TIME + 1000 });
    await append(log, "s", toDeltas(1), { spool: { process: 1, offset: 5_000_000_000 }, time: TIME + 2000 });
    const row = await log.find("s");
    assert.deepEqual(row?.spool, {
      process: 1,
      offset: 5_000_000_000,
      checkpoint: { open: ["x"] },
      checkpointOffset: 100,
    });
    assert.deepEqual(row?.snapshot, { at: 4, state: { status: "idle" } });
    assert.deepEqual([row?.createdAt, row?.updatedAt], [TIME, TIME + 2000]);

    await append(log, "s", [], { spool: { process: 2, offset: 0 } });
    assert.deepEqual((await log.find("s"))?.spool, { process: 2, offset: 0 });
    await append(log, "s", [], { spool: { process: 2, offset: 7, checkpoint: null }, snapshot: null });
    const last = await log.find("s");
    assert.deepEqual(last?.spool, { process: 2, offset: 7, checkpoint: null, checkpointOffset: 7 });
    assert.deepEqual(last?.snapshot, { at: 5, state: null });
    assert.deepEqual((await log.list({ limit: 1 }))[0], last);
  });

  suite.it("keeps no reference to the caller's objects", async ({ log }) => {
    const spec = { agent: "scripted", metadata: { n: 1 } };
    await log.create({ id: "s", spec, owner: "o", time: TIME });
    const state = { list: [1] };
    await append(log, "s", [], { snapshot: state });
    state.list.push(2);
    spec.metadata.n = 2;
    const row = await log.find("s");
    assert.deepEqual(row?.snapshot?.state, { list: [1] });
    assert.deepEqual(row?.spec.metadata, { n: 1 });
  });

  if (suite.volatile) return;

  suite.it("keeps everything over a restart", async (subject) => {
    const { log } = subject;
    await createSession(log, "s");
    await createSession(log, "t");
    const big = "z".repeat(100_000);
    await append(log, "s", toDeltas(1500, { raw: true }), {
      active: true,
      spool: { process: 3, offset: 9, checkpoint: [1] },
    });
    await append(
      log,
      "s",
      [{ type: "workspace.diffed", source: "daemon", data: { path: ".", diff: big }, raw: `"${big}"` }],
      {
        snapshot: { at: "turn" },
        key: { key: "k", fingerprint: "f", answer: "a" },
      },
    );
    await log.claim("t", { owner: "second", from: 1 });
    await log.trim("s", 3);
    const rows = await log.list({ limit: 10 });
    const events = await readAll(log, "s", { after: 3, raw: true });

    const reopened = await subject.reopen?.();
    assert.ok(reopened, "a log that survives can be opened again");
    assert.deepEqual(await reopened.list({ limit: 10 }), rows);
    const again = await readAll(reopened, "s", { after: 3, raw: true });
    assert.deepEqual(again, events);
    isGapless(again, 4);
    assert.deepEqual(
      (await reopened.active()).map((row) => row.id),
      ["s"],
    );
    assert.deepEqual(await reopened.recall("s", "k"), { fingerprint: "f", answer: "a" });
    assert.equal((await append(reopened, "s", toDeltas(1))).first, 1502);
    await append(reopened, "t", toDeltas(1), { epoch: 2 });
  });
}
