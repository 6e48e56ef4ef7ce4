import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { SluiceEvent } from "../../src/contract/index.ts";
import { createScriptedModel, type ModelRequest, type ScriptedModel } from "../../src/model/index.ts";
import { type AgentId, requireAgent } from "../support/agents.ts";
import { processesWith, script } from "../support/engine.ts";
import { assistantTexts, expectLawful } from "../support/laws.ts";
import { LED_TO_MODEL } from "../support/model.ts";
import { startServer, type TestServer } from "../support/server.ts";

/** Gemini CLI does not retry an answer that was cut, so it is left out of that case. */
const GIVES_UP: AgentId = "gemini";

describe("kill -9 of the network bridge's end outside in the middle of a real agent's turn", () => {
  let server: TestServer;
  let model: ScriptedModel;
  let whenAsked: (() => void) | undefined;
  beforeAll(async () => {
    const onRequest = ({ body }: ModelRequest): void => {
      if (JSON.stringify(body ?? "").includes("the very end")) whenAsked?.();
    };
    [server, model] = await Promise.all([startServer(), createScriptedModel({ onRequest })]);
  });
  afterAll(async () => {
    await server.close();
    await model.close();
  });

  it.for(Object.keys(LED_TO_MODEL) as AgentId[])(
    "%s asks the model again, and the turn goes on",
    async (id, { skip }) => {
      const { path, reason } = requireAgent(id);
      if (path === undefined) return skip(reason);
      const { model: name, env } = LED_TO_MODEL[id];
      await server.client.sessions.create(id, {
        agent: id,
        model: name,
        env: env(model.url),
        permissionMode: "bypass",
      });
      // Once during a model request, and once between two.
      const steps = [{ sleep: 2_000 }, { shell: "sleep 1; echo of the shell" }, { say: "the very end" }];
      const events: SluiceEvent[] = [];
      const killed: Promise<number>[] = [];
      whenAsked = () => {
        whenAsked = undefined;
        if (id !== GIVES_UP) killed.push(killBridge(server, id));
      };
      await server.client.sendMessage(id, script(...steps));
      for await (const event of server.client.subscribe(id, { extensions: true })) {
        events.push(event);
        if (event.type === "item.completed" && event.data.item.kind === "tool_call")
          killed.push(killBridge(server, id));
        if (event.type === "turn.ended") break;
      }
      expect(await Promise.all(killed)).toEqual(id === GIVES_UP ? [1] : [1, 1]);
      expectLawful(events);
      expect(events.at(-1)).toMatchObject({ type: "turn.ended", data: { status: "completed" } });
      expect(assistantTexts(events).at(-1)).toBe("the very end");
      expect(JSON.stringify(events)).toContain("of the shell");
    },
  );
});

/** Kills the program, never the shell that restarts it. Returns the count of killed processes. */
async function killBridge(server: TestServer, session: string): Promise<number> {
  const { events } = await server.client.events.page(session, { extensions: true });
  const boot = events.find((event) => event.type === "sandbox.boot");
  let count = 0;
  for (const pid of await processesWith(boot?.data.sandbox_id ?? "none")) {
    const [program, file = ""] = (await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "")).split("\0");
    if (program !== process.execPath || !file.includes("egress-host")) continue;
    process.kill(pid, "SIGKILL");
    count++;
  }
  return count;
}
