import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { SluiceError, type SluiceEvent } from "../../src/contract/index.ts";
import { createLocalProvider } from "../../src/sandbox/local/provider.ts";
import type { Sandbox, SandboxProvider } from "../../src/sandbox/port.ts";
import { ask } from "./damaged-session.ts";
import {
  ofType,
  openEngine,
  readAll,
  runTurn,
  say,
  script,
  SCRIPTED,
  type TestEngine,
} from "../support/engine.ts";

/** The local provider with other parts; the test says which calls fail. */
function localWith(root: string, parts: Partial<SandboxProvider>): SandboxProvider {
  const local = createLocalProvider({ root });
  return {
    id: local.id,
    isolated: false,
    detect: () => local.detect(),
    create: (spec, claim) => local.create(spec, claim),
    list: async () => (await local.list?.()) ?? [],
    connect: (id, claim) => local.connect(id, claim),
    ...parts,
  };
}

const away = (): never => {
  throw new SluiceError("sandbox_unreachable", "the machine does not answer");
};

/** The sandbox, with a damaged list of processes, and out of reach for a kill. */
function beyondReach(known: Sandbox): Sandbox {
  return new Proxy(known, {
    get(target, name) {
      if (name === "killAll") return async () => away();
      if (name === "processes")
        return { ...target.processes, open: () => Promise.reject(new Error("damaged")) };
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

it("a paused session is removed, although its sandbox cannot kill frozen processes", async () => {
  const test = await openEngine({ defaultSandbox: "local" });
  try {
    let isFrozen = false;
    const withoutFrozenKill = (known: Sandbox): Sandbox =>
      new Proxy(known, {
        get(target, name) {
          const value: unknown = Reflect.get(target, name, target);
          if (typeof value !== "function") return value;
          return async (...given: unknown[]): Promise<unknown> => {
            if (name === "killAll" && isFrozen) away();
            if (name === "pause" || name === "resume") isFrozen = name === "pause";
            return value.apply(target, given) as unknown;
          };
        },
      });
    const local = createLocalProvider({ root: join(test.folder, "sandboxes") });
    const provider = localWith(join(test.folder, "sandboxes"), {
      create: async (spec, claim) => withoutFrozenKill(await local.create(spec, claim)),
    });
    await test.restart({ providers: [provider], defaultSandbox: "local" });
    await test.engine.create("s", SCRIPTED);
    await ask(test, "s");
    await test.engine.pause("s");
    expect(isFrozen).toBe(true);
    await test.engine.remove("s");
    expect(await test.log.find("s")).toBeUndefined();
  } finally {
    await test.close();
  }
});

describe("damage of a session whose sandbox cannot be reached at first", () => {
  let test: TestEngine;
  afterEach(() => test.close());

  const options = (parts: Partial<SandboxProvider> = {}) => ({
    providers: [localWith(join(test.folder, "sandboxes"), parts)],
    defaultSandbox: "local" as const,
  });
  const errors = async (id: string) => ofType(await readAll(test.log, id), "error");

  it.each([
    ["list", { list: async () => away() }],
    ["connect", { connect: async () => away() }],
  ])("%s fails: the process of a lost past is ended later, and told once", async (failing, parts) => {
    test = await openEngine({ defaultSandbox: "local" });
    await test.engine.create("lost", SCRIPTED);
    await runTurn(test, "lost", script({ say: "one" }));
    await ask(test, "lost");
    await test.engine.close();
    const { epoch = 0, head = 0 } = (await test.log.find("lost")) ?? {};
    if (failing === "list")
      await test.log.append("lost", { epoch, time: Date.now(), events: [], snapshot: null });
    await test.log.trim("lost", head - 1);

    await test.restart(options(parts));
    await expect(say(test.engine, "lost", script({ say: "two" }))).rejects.toThrow("does not answer");
    await test.restart(options());

    expect((await runTurn(test, "lost", script({ say: "two" }))).data.status).toBe("completed");
    const events = (await test.log.read("lost", { after: head - 1, limit: 1000 })).map(
      ({ body }) => JSON.parse(body) as SluiceEvent,
    );
    expect(ofType(events, "error").map(({ data }) => data.message)).toEqual([
      expect.stringContaining("trimmed away"),
    ]);
    // The process whose state nobody knows was ended before the message.
    const [ended] = ofType(events, "process.ended");
    expect(ended?.data).toMatchObject({ process: 1, reason: "lost" });
    expect(ofType(events, "process.started")).toHaveLength(1);
    // The files of the session are not left behind.
    expect(ofType(events, "sandbox.boot")).toEqual([]);
  });

  it("a process that cannot be found is reported with its end, not at every opening", async () => {
    test = await openEngine({ defaultSandbox: "local" });
    await test.engine.create("agent", SCRIPTED);
    await ask(test, "agent");
    await test.engine.create("command", SCRIPTED);
    await test.engine.exec("command", { command: "sleep 100" });
    const local = createLocalProvider({ root: join(test.folder, "sandboxes") });
    const connect: SandboxProvider["connect"] = async (id, claim) => {
      const known = await local.connect(id, claim);
      return known && beyondReach(known);
    };
    for (const _ of [1, 2]) {
      await test.restart(options({ connect }));
      for (const id of ["agent", "command"])
        await expect(test.engine.interrupt(id)).rejects.toThrow("does not answer");
    }
    await test.restart(options());
    expect(await errors("agent")).toEqual([]);
    expect(await errors("command")).toEqual([]);
  });
});
