import { randomBytes } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { EventOf, SessionSpec, SluiceEvent } from "../../src/contract/index.ts";
import { createScriptedModel, type ScriptedModel } from "../../src/model/index.ts";
import { requireAgent } from "../support/agents.ts";
import { script } from "../support/engine.ts";
import { assistantTexts, expectLawful } from "../support/laws.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { runCli } from "./cli.ts";
import { findGateways } from "./gateways.ts";
import { LED_AGENTS, toServerEnv } from "./led-table.ts";

/**
 * Looks for the key in the files of the agent, and in the variables, arguments and memory of its processes. The gateway
 * is a process of the same user, so it is left out: `local` isolates nothing. The key is written backwards, so that the
 * program does not find itself.
 */
const toSearch = (backwards: string) => `python3 - <<'PY'
import os
want = ${JSON.stringify(backwards)}[::-1].encode()
token = "_sses"[::-1].encode()
found, control = [], []
def look(name, data):
    if want in data: found.append(name)
    if token in data: control.append(name)
mine = b"SLUICE_SANDBOX=" + os.environ["SLUICE_SANDBOX"].encode() + b"\\0"
look("env", repr(os.environ).encode())
for pid in [p for p in os.listdir("/proc") if p.isdigit() and int(p) != os.getpid()]:
    try:
        environ = open(f"/proc/{pid}/environ", "rb").read()
        if mine not in environ or b"SLUICE_BRIDGE=" in environ: continue
        look(f"/proc/{pid}/environ", environ)
        look(f"/proc/{pid}/cmdline", open(f"/proc/{pid}/cmdline", "rb").read())
        maps, mem = open(f"/proc/{pid}/maps"), open(f"/proc/{pid}/mem", "rb", 0)
    except OSError: continue
    for line in maps:
        span, mode = line.split()[:2]
        if not mode.startswith("r"): continue
        start, end = (int(x, 16) for x in span.split("-"))
        if end - start > 1 << 28: continue
        try:
            mem.seek(start); look(f"/proc/{pid}/mem", mem.read(end - start))
        except (OSError, ValueError, OverflowError): pass
for top in (os.environ["HOME"], os.getcwd()):
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            try:
                if os.path.isfile(path) and os.path.getsize(path) < 1 << 26: look(path, open(path, "rb").read())
            except OSError: pass
print("SEARCHED", sorted(set(found)), "CONTROL", len(control) > 0)
PY`;

const OPTIONS = ["run", "--sandbox", "local", "--as", "universal", "--permission-mode", "bypass"];
const NOWHERE = "http://127.0.0.1:9";

describe("a local sandbox", () => {
  let model: ScriptedModel;
  let folder: string;
  beforeAll(async () => {
    model = await createScriptedModel();
    folder = mkdtempSync(join(tmpdir(), "gateway-local-"));
  });
  afterAll(async () => {
    await model.close();
    rmSync(folder, { recursive: true, force: true });
  });

  describe.each(LED_AGENTS)(
    "leads $agent",
    ({ agent, variable, address, path, model: name, wire, reason }) => {
      it.skipIf(reason !== undefined)(
        "without a key in its processes and files, measured and recorded",
        { timeout: 240_000 },
        async () => {
          const key = `sk-canary-${randomBytes(16).toString("hex")}`;
          const cassette = join(folder, `${agent}-${randomBytes(4).toString("hex")}.cassette.jsonl`);
          const search = toSearch([...key].toReversed().join(""));
          const prompt = script({ shell: search }, { say: "all done" });
          const run = (more: string[], env: Record<string, string>) =>
            runCli(
              [
                ...OPTIONS,
                "--agent",
                agent,
                ...(name === undefined ? [] : ["--model", name]),
                ...more,
                prompt,
              ],
              { XDG_DATA_HOME: join(folder, "data"), ...env },
            );
          const live = await run(["--record", cassette], { [variable]: key, [address]: model.url + path });
          expect([live.code, live.stderr]).toEqual([0, expect.any(String)]);
          expect(find(live.events, "process.started")[0]?.data).toMatchObject({
            credential: "outside",
            gateway: true,
          });
          const text = JSON.stringify(live.events);
          expect(text).toContain("SEARCHED [] CONTROL True");
          expect(text + readFileSync(cassette, "utf8")).not.toContain(key);
          const measured = find(live.events, "model.ended").filter(
            ({ data }) => data.usage_source === "measured" && data.wire === wire,
          );
          expect(measured.length).toBeGreaterThanOrEqual(2);
          expect(find(live.events, "turn.ended")[0]?.data).toMatchObject({ status: "completed" });
          // A replay of all agents is in cassette-agents; the sandbox makes no difference to the cassette.
          if (agent !== "claude") return;
          const asked = model.requests.length;
          const again = await run(["--replay", cassette], { [address]: NOWHERE + path });
          expect([again.code, again.stderr]).toEqual([0, expect.any(String)]);
          expect(assistantTexts(again.events).join("")).toContain("all done");
          expect(model.requests.length).toBe(asked);
          for (const { data } of find(again.events, "model.ended")) expect(data.served_by).toBe("cassette");
        },
      );
    },
  );
});

const claude = requireAgent("claude");

describe.skipIf(claude.reason !== undefined)("a led agent in a local sandbox", { timeout: 120_000 }, () => {
  let server: TestServer;
  let model: ScriptedModel;
  beforeAll(async () => {
    model = await createScriptedModel();
    server = await startServer({ args: ["--sandbox", "local"], env: toServerEnv(model) });
  });
  afterAll(async () => {
    await server.close();
    await model.close();
  });

  async function runTurn(
    settings: Partial<SessionSpec>,
    steps: unknown[],
    act: (event: SluiceEvent, id: string) => unknown,
  ): Promise<{ id: string; events: SluiceEvent[] }> {
    const id = `local-${randomBytes(4).toString("hex")}`;
    await server.client.sessions.create(id, {
      agent: "claude",
      model: "claude-sonnet-4-5",
      permissionMode: "bypass",
      ...settings,
    });
    await server.client.sendMessage(id, script(...steps));
    const events: SluiceEvent[] = [];
    for await (const event of server.client.subscribe(id, { extensions: true })) {
      events.push(event);
      await act(event, id);
      if (event.type === "turn.ended") break;
    }
    expectLawful(events);
    return { id, events };
  }

  it("keeps its stream over a kill -9 of the server, and its port over a kill -9 of the gateway", async () => {
    const halves = [{ say: "the first half " }, { sleep: 2_000 }, { say: "the second half" }];
    let killed = 0;
    const kept = await runTurn({}, halves, async (event) => {
      if (event.type !== "item.delta" || ++killed > 1) return;
      await server.kill();
      await server.start();
    });
    expect(find(kept.events, "turn.ended")[0]?.data).toMatchObject({ status: "completed" });
    expect(assistantTexts(kept.events).join("")).toContain("second half");
    expect(find(kept.events, "model.ended").filter(({ data }) => data.error !== undefined)).toEqual([]);

    let cut = 0;
    const { events } = await runTurn({}, halves, (event) => {
      if (event.type !== "item.delta" || ++cut > 1) return;
      for (const pid of findGateways(server.data)) process.kill(pid, "SIGKILL");
    });
    expect(find(events, "turn.ended")[0]?.data).toMatchObject({ status: "completed" });
    const ends = find(events, "model.ended");
    expect(ends.some(({ data }) => data.error?.code === "cut")).toBe(true);
    expect(ends.length).toBe(find(events, "model.started").length);
  });

  it("gets 429 for a request above its limit by the minute, and the log says so", async () => {
    const asked = model.requests.length;
    const steps = [{ shell: "echo one" }, { say: "all done" }];
    const { events } = await runTurn({ perMinute: { requests: 1 } }, steps, async (event, id) => {
      if (event.type === "model.ended" && event.data.status === 429) await server.client.interrupt(id);
    });
    expect(model.requests.length - asked).toBe(1);
    const refused = find(events, "model.ended").find(({ data }) => data.status === 429);
    expect(refused?.data.error).toMatchObject({ code: "rate_limited" });
    expect(find(events, "turn.ended")[0]?.data).toMatchObject({ status: "interrupted" });
  });

  it("is held by its budget, and its gateway ends with it", async () => {
    const steps = [
      { usage: { input_tokens: 400, output_tokens: 100 } },
      { shell: "echo one" },
      { usage: { input_tokens: 40, output_tokens: 10 } },
      { say: "all done" },
    ];
    const { id, events } = await runTurn({ budget: { tokens: 450 } }, steps, async (event, session) => {
      if (event.type !== "permission.requested") return;
      const asked = model.requests.length;
      await sleep(500);
      expect(model.requests.length, "no request passes while the budget is open").toBe(asked);
      await server.client.replyPermission(session, event.data.permission_id, { reply: "once" });
    });
    expect(find(events, "budget.reached")[0]?.data).toMatchObject({ measure: "tokens", action: "ask" });
    expect(assistantTexts(events).join("")).toContain("all done");
    expect(findGateways(server.data, id)).not.toEqual([]);
    await server.client.terminate(id);
    for (let tries = 0; findGateways(server.data, id).length > 0 && tries < 100; tries++) await sleep(100);
    expect(findGateways(server.data, id)).toEqual([]);
  });
});

function find<T extends SluiceEvent["type"]>(events: readonly SluiceEvent[], type: T): EventOf<T>[] {
  return events.filter((event): event is EventOf<T> => event.type === type);
}
