import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { SluiceEvent } from "../../src/contract/index.ts";
import { script } from "../support/engine.ts";
import { expectLawful } from "../support/laws.ts";
import { startServer, type TestServer } from "../support/server.ts";

const DAY_MS = 86_400_000;

describe("a clock that is set back by a day", () => {
  let folder: string;
  let server: TestServer;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "sluice-clock-"));
    const clock = join(import.meta.dirname, "../support/clock.mjs");
    await shift(DAY_MS);
    server = await startServer({
      env: {
        NODE_OPTIONS: `--import ${pathToFileURL(clock).href}`,
        SLUICE_TEST_CLOCK: join(folder, "clock"),
      },
    });
    await server.client.sessions.create("s", { agent: "scripted", retries: { tries: 4, backoffMs: 1_500 } });
  });
  afterEach(async () => {
    await server.close();
    await rm(folder, { recursive: true });
  });

  const shift = (ms: number): Promise<void> => writeFile(join(folder, "clock"), String(ms));

  async function until(isLast: (event: SluiceEvent) => boolean): Promise<SluiceEvent[]> {
    const events: SluiceEvent[] = [];
    for await (const event of server.client.subscribe("s", { extensions: true })) {
      events.push(event);
      if (isLast(event)) break;
    }
    return events;
  }

  async function setBackAndRestart(): Promise<void> {
    await shift(0);
    await server.kill();
    await server.start();
  }

  it("does not delay the retry of a turn", async () => {
    await server.client.sendMessage(
      "s",
      script({ fail: { kind: "overloaded", times: 1 } }, { say: "there" }),
    );
    await until(({ type }) => type === "turn.retrying");
    await setBackAndRestart();
    const events = await until(({ type }) => type === "turn.ended");
    expectLawful(events);
    expect(events.at(-1)).toMatchObject({ data: { status: "completed" } });
  });

  it("does not delay the limit of a turn", async () => {
    await server.client.sendMessage("s", {
      message: script({ shell: "sleep 300" }),
      options: { timeoutMs: 2_000 },
    });
    await until(({ type }) => type === "turn.started");
    await setBackAndRestart();
    const events = await until(({ type }) => type === "turn.ended");
    expect(events.at(-1)).toMatchObject({ data: { stop_reason: "timeout" } });
  });

  it("does not delay the limit of a command", async () => {
    await server.client.runCommand("s", { command: "sleep 300", timeoutMs: 2_000 });
    await until(({ type }) => type === "command.started");
    await setBackAndRestart();
    const events = await until(({ type }) => type === "command.ended");
    expect(events.at(-1)).toMatchObject({ data: { status: "failed" } });
  });
});
