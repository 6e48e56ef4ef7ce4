import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { EventDraft } from "../../src/contract/index.ts";
import { createSqliteLog, type EventLog } from "../../src/log/index.ts";
import { SessionWriter } from "../../src/sessions/fold/writer.ts";
import { readAll, SCRIPTED } from "../support/engine.ts";

let folder: string;
let log: EventLog;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-writer-"));
  log = await createSqliteLog({ folder });
});

afterEach(async () => {
  await log.close();
  await rm(folder, { recursive: true });
});

it("fails every append after a failed one with the first failure, and never as fenced", async () => {
  const writer = await writerOf("s");
  const busy = await writerOf("busy");
  const key = { key: "k", fingerprint: "f", answer: "{}" };
  await writer.commit(writer.drafts([said("first")]), { key });

  // During another session's long commit, these appends wait together and settle together.
  const long = busy.commit(busy.drafts(Array.from({ length: 2_000 }, () => said("x".repeat(100)))), {});
  const failing = writer.commit(writer.drafts([said("a key that was used before")]), { key });
  const following = writer.commit(writer.drafts([said("follows")]), {});
  const last = writer.commit(writer.drafts([said("follows that")]), {});

  const [, ...settled] = await Promise.allSettled([long, failing, following, last]);
  expect(settled.map((one) => one.status === "rejected" && one.reason.code)).toEqual(
    Array(3).fill("idempotency_conflict"),
  );
  expect(await readAll(log, "s")).toHaveLength(1);
});

it("fences the writer before it, also one of the same process", async () => {
  const row = await log.create({ id: "s", time: 1_000, spec: SCRIPTED, owner: "us" });
  const deps = { log, owner: "us", count: () => {} };
  const first = await SessionWriter.claim(deps, row);
  await first.commit(first.drafts([said("first")]), {});
  const second = await SessionWriter.claim(deps, (await log.find("s")) ?? row);
  await expect(first.commit(first.drafts([said("too late")]), {})).rejects.toMatchObject({ code: "fenced" });
  await second.commit(second.drafts([said("second")]), {});
  expect((await readAll(log, "s")).map((event) => event.data)).toEqual([
    { message: "first" },
    { message: "second" },
  ]);
});

async function writerOf(id: string): Promise<SessionWriter> {
  const row = await log.create({ id, time: 1_000, spec: SCRIPTED, owner: "us" });
  return SessionWriter.claim({ log, owner: "us", count: () => {} }, row);
}

function said(message: string): EventDraft {
  return { type: "error", source: "daemon", data: { message } };
}
