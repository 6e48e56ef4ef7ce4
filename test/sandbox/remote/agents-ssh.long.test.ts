import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { SluiceEvent } from "../../../src/contract/index.ts";
import { createScriptedModel } from "../../../src/model/index.ts";
import { requireAgent, type AgentId } from "../../support/agents.ts";
import { script } from "../../support/engine.ts";
import { assistantTexts, expectLawful } from "../../support/laws.ts";
import { LED_TO_MODEL } from "../../support/model.ts";
import { startServer } from "../../support/server.ts";
import { NO_SSHD, startSshd } from "./sshd.ts";
import { onCleanup } from "./workbench.ts";

const agents = (Object.keys(LED_TO_MODEL) as AgentId[]).filter((id) => requireAgent(id).path !== undefined);
const why = NO_SSHD ?? (agents.length === 0 ? "no agent is installed" : "");

describe.skipIf(why !== "")(`real agents by SSH${why && ` (${why})`}`, { timeout: 240_000 }, () => {
  it("go on through a kill of the server in the middle of their turns, and nothing is lost or told twice", async () => {
    const sshd = await startSshd();
    // A login shell sets its own PATH.
    await writeFile(join(sshd.home, ".profile"), `export PATH='${process.env["PATH"]}'\n`);
    const [server, model] = await Promise.all([startServer({ env: sshd.env }), createScriptedModel()]);
    onCleanup(() => server.close().finally(() => model.close()));
    const { client } = server;
    const waits = "while [ ! -e go ]; do sleep 0.1; done; echo of the shell";
    const isCalled: Record<string, () => void> = {};
    const called = agents.map((id) => new Promise<void>((resolve) => (isCalled[id] = resolve)));
    const runs = agents.map(async (id): Promise<SluiceEvent[]> => {
      const { model: name, env } = LED_TO_MODEL[id];
      const spec = { agent: id, model: name, env: env(model.url), permissionMode: "bypass" } as const;
      await client.sessions.create(id, { ...spec, sandbox: sshd.url });
      await client.sendMessage(id, script({ say: "first" }, { shell: waits }, { say: "the very end" }));
      const events: SluiceEvent[] = [];
      for await (const event of client.subscribe(id, { extensions: true })) {
        events.push(event);
        if (event.type === "item.completed" && event.data.item.kind === "tool_call") isCalled[id]?.();
        if (event.type === "turn.ended") break;
      }
      isCalled[id]?.();
      return events;
    });
    await Promise.all(called);
    await server.kill();
    await server.start();
    for (const id of agents) {
      const path = `/v1/fs/file?session=${id}&path=go`;
      await expect
        .poll(async () => (await server.fetch(path, { method: "PUT", body: "" })).ok, { timeout: 60_000 })
        .toBe(true);
    }
    const told = await Promise.all(runs);
    for (const [index, id] of agents.entries()) {
      const events = told[index]!;
      expectLawful(events);
      expect(events.at(-1), id).toMatchObject({ type: "turn.ended", data: { status: "completed" } });
      expect(
        events.filter(({ type }) => type === "process.started"),
        id,
      ).toHaveLength(1);
      expect(assistantTexts(events).join("|"), id).toBe("first|the very end");
      expect(JSON.stringify(events), id).toContain("of the shell");
    }
  });
});
