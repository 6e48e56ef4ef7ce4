import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { createLocalProvider } from "../../src/sandbox/index.ts";
import type { SandboxProvider } from "../../src/sandbox/port.ts";
import { reapSandboxes } from "../../src/sessions/upkeep/upkeep.ts";
import {
  ofType,
  openEngine,
  readAll,
  say,
  script,
  SCRIPTED,
  waitFor,
  type TestEngine,
} from "../support/engine.ts";

const LOCAL = { ...SCRIPTED, sandbox: "local" };

let test: TestEngine;
let root: string;
let provider: SandboxProvider;
let made: string[] = [];

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "sluice-sandboxes-"));
  const local = createLocalProvider({ root });
  // The real provider, as slow as one that fetches an image: other calls come meanwhile.
  provider = {
    id: local.id,
    isolated: false,
    detect: () => local.detect(),
    connect: (id, claim) => local.connect(id, claim),
    list: async () => (await local.list?.()) ?? [],
    create: async (spec, claim) => {
      made.push(spec.session ?? "");
      await sleep(30);
      const sandbox = await local.create(spec, claim);
      await sleep(30);
      return sandbox;
    },
  };
  test = await openEngine({ providers: [provider], defaultSandbox: "local" });
});
afterAll(async () => {
  await test.close();
  await rm(root, { recursive: true, force: true });
});
beforeEach(() => {
  made = [];
});

type Ask = (session: string) => Promise<unknown>;
const asks: Record<string, Ask> = {
  files: async (session) => (await test.engine.files(session)).write("a", "b"),
  host: (session) => test.engine.host(session, 8080),
  exec: (session) => test.engine.exec(session, { command: "true" }),
  checkpoint: (session) => test.engine.checkpoint(session),
  pause: async (session) => {
    await test.engine.pause(session);
    await test.engine.resume(session);
  },
};

it.each(Object.keys(asks))("a message and %s at once make one sandbox", async (name) => {
  const ask = asks[name] as Ask;
  const sessions = ["before", "after", "late"].map((when) => `${name}-${when}`);
  await Promise.all(
    sessions.map(async (session) => {
      await test.engine.create(session, LOCAL);
      const message = async (): Promise<void> => {
        await say(test.engine, session, script({ say: "hello" }));
      };
      // A call during a turn may be refused; it must not make a second sandbox.
      const asked = async (): Promise<void> => {
        if (session.endsWith("late")) await waitFor(test.log, session, "sandbox.boot");
        await ask(session).catch((error: { code?: string }) => expect(error.code).toBe("session_busy"));
      };
      const order = session.endsWith("before") ? [asked, message] : [message, asked];
      await Promise.all(order.map((act) => act()));
      const ended = await waitFor(test.log, session, "turn.ended");
      expect(ended.data.status).toBe("completed");
    }),
  );
  expect(made.toSorted()).toEqual(sessions.toSorted());
  const reaped: string[] = [];
  await reapSandboxes({
    providers: [provider],
    log: test.log,
    ttlMs: 3_600_000,
    logger: ({ message }) => void reaped.push(message),
  });
  expect(reaped).toEqual([]);
  for (const session of sessions)
    expect(ofType(await readAll(test.log, session), "sandbox.ready")).toHaveLength(1);
});
