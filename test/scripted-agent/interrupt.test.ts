import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { AgentLine } from "../../src/scripted-agent/protocol.ts";
import { ofType, openLab, type RunningAgent } from "./lab.ts";

const lab = openLab();

interface Moment {
  readonly name: string;
  readonly steps: unknown[];
  /** Resolves when the script has reached the step to interrupt. */
  arrive(agent: RunningAgent): Promise<unknown>;
}

const moments: Moment[] = [
  {
    name: "in a sleep",
    steps: [{ say: "a" }, { sleep: 100_000 }],
    arrive: (agent) => agent.next("text.ended"),
  },
  {
    name: "in a shell command",
    steps: [{ shell: "echo started; sleep 1000" }],
    arrive: (agent) => agent.next("tool.output"),
  },
  {
    name: "in a flood",
    steps: [{ flood: { events: 50_000_000, bytes: 40 } }],
    arrive: (agent) => agent.next("text.delta"),
  },
  {
    name: "while asking",
    steps: [{ ask: { shell: "true" } }],
    arrive: (agent) => agent.next("permission.asked"),
  },
  {
    name: "in a question",
    steps: [{ question: { prompt: "?" } }],
    arrive: (agent) => agent.next("question.asked"),
  },
  {
    name: "in an application's tool",
    steps: [{ custom: { name: "c" } }],
    arrive: (agent) => agent.next("tool.asked"),
  },
  {
    name: "while waiting for a retry",
    steps: [{ fail: { kind: "overloaded", times: 9 } }],
    arrive: (agent) => agent.next("model.failed"),
  },
  {
    name: "in parallel tools of a sub-agent",
    steps: [
      {
        subagent: {
          name: "s",
          steps: [
            { parallel: [{ shell: "echo up; sleep 1000" }, { ask: { read: "x" } }, { sleep: 100_000 }] },
          ],
        },
      },
    ],
    arrive: async (agent) => {
      await agent.next("tool.output");
      await agent.next("permission.asked");
    },
  },
  {
    name: "in a sleep of a sub-agent",
    steps: [{ subagent: { name: "s", steps: [{ say: "in" }, { sleep: 100_000 }, { say: "never" }] } }],
    arrive: (agent) => agent.next("text.ended"),
  },
];

describe("an interrupt", () => {
  it.each(moments)("$name ends the turn at once, with everything closed", async ({ steps, arrive }) => {
    const agent = await lab.start();
    agent.script([...steps, { say: "must not be said" }]);
    await arrive(agent);
    agent.command({ type: "interrupt" });
    expect(await agent.next("turn.ended")).toMatchObject({ stop_reason: "interrupted" });
    expectAllClosed(agent.said);
    expect(ofType(agent.said, "text.ended").map((line) => line.text)).not.toContain("must not be said");
    expect((await agent.fact("turn.ended")).data).toMatchObject({
      status: "interrupted",
      stop_reason: "interrupted",
    });

    const next = await agent.turn([{ say: "next" }]);
    expect(ofType(next, "text.ended").map((line) => line.text)).toEqual(["next"]);
    expect(agent.facts.filter((fact) => fact.type === "agent.unparsed")).toEqual([]);
  });

  it("kills the command's whole process group and keeps its output", async () => {
    const agent = await lab.start();
    agent.script([{ shell: "sleep 1000 & echo $!; wait" }]);
    const pid = Number((await agent.next("tool.output")).text);
    agent.command({ type: "interrupt" });
    const ended = await agent.next("tool.ended");
    expect(ended).toMatchObject({ failed: true, interrupted: true, output: `${pid}\n` });
    await agent.next("turn.ended");
    expect(await isGone(pid)).toBe(true);
  });

  it("right behind a prompt finds the turn", async () => {
    const agent = await lab.start();
    agent.write('{"type":"prompt","id":"1","text":"#script [{\\"sleep\\":100000}]"}\n{"type":"interrupt"}\n');
    expect(await agent.next("turn.ended")).toMatchObject({ stop_reason: "interrupted" });
  });

  it("is ignored when no turn runs", async () => {
    const agent = await lab.start();
    agent.command({ type: "interrupt" });
    const lines = await agent.turn([{ say: "a" }]);
    expect(ofType(lines, "turn.ended")[0]?.stop_reason).toBe("end_turn");
  });

  it("ends only the running turn; a queued prompt follows", async () => {
    const agent = await lab.start();
    agent.script([{ sleep: 100_000 }]);
    agent.script([{ say: "second" }]);
    agent.command({ type: "interrupt" });
    await agent.next("turn.ended", { where: (line) => line.turn === 2 });
    expect(ofType(agent.said, "turn.ended").map((line) => line.stop_reason)).toEqual([
      "interrupted",
      "end_turn",
    ]);
    expect(ofType(agent.said, "text.ended").map((line) => line.text)).toEqual(["second"]);
  });

  it("takes effect while a flood of output is not read", async () => {
    const agent = await lab.start();
    agent.script([{ flood: { events: 50_000_000, bytes: 40 } }]);
    await agent.next("text.delta");
    agent.pause();
    agent.command({ type: "interrupt" });
    agent.resume();
    expect(await agent.next("turn.ended")).toMatchObject({ stop_reason: "interrupted" });
    const said = ofType(agent.said, "text.delta").map((line) => line.text);
    expect(ofType(agent.said, "text.ended")[0]?.text).toBe(said.join(""));
  });
});

function expectAllClosed(lines: readonly AgentLine[]): void {
  const open = new Set<string>();
  for (const line of lines) {
    if (/^(text|thinking|model)\.started$|^tool\.called$/.test(line.type) && "id" in line) open.add(line.id);
    if (/^(text|thinking|model|tool)\.ended$|^model\.failed$/.test(line.type) && "id" in line)
      open.delete(line.id);
  }
  expect([...open]).toEqual([]);
  expect(lines.at(-1)?.type).toBe("turn.ended");
}

/** A killed child may be a zombie until its new parent reaps it. */
async function isGone(pid: number): Promise<boolean> {
  for (let look = 0; look < 500; look++) {
    const stat = join("/proc", String(pid), "stat");
    if (!existsSync(stat)) return true;
    try {
      if (/\) [ZX] /.test(readFileSync(stat, "utf8"))) return true;
    } catch {
      return true;
    }
    await new Promise((wake) => setTimeout(wake, 10));
  }
  return false;
}
