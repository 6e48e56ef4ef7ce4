import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Launch } from "../../../src/contract/index.ts";
import { opencode } from "../../../src/harness/opencode/harness.ts";
import type { HarnessFact } from "../../../src/harness/port.ts";
import { recordedContext } from "../../../src/harness/recording.ts";
import { createScriptedModel, type ScriptedModel } from "../../../src/model/index.ts";
import { requireAgent } from "../../support/agents.ts";
import { processesWith, script } from "../../support/engine.ts";

const { path: cli, reason } = requireAgent("opencode");
const CUT_OFF = join(import.meta.dirname, "cut-off-opencode.mjs");
const GAP_MS = 1_500;

describe.skipIf(cli === undefined)(
  `the bridge to the real OpenCode${reason === undefined ? "" : ` (${reason})`}`,
  { timeout: 120_000 },
  () => {
    let model: ScriptedModel;
    let folder: string;
    let launched: Launch;
    let earlier: string;
    const running: Bridge[] = [];

    beforeAll(async () => {
      model = await createScriptedModel();
      folder = await mkdtemp(join(tmpdir(), "sluice-gateway-"));
      const spec = {
        agent: "opencode",
        model: "scripted",
        permissionMode: "bypass",
        env: { OPENAI_BASE_URL: `${model.url}/v1` },
      } as const;
      launched = opencode.launch(spec, { workspace: folder, home: folder });
      for (const { path, content } of launched.files ?? []) {
        await mkdir(dirname(join(folder, path)), { recursive: true });
        await writeFile(join(folder, path), content);
      }
    });

    afterAll(async () => {
      for (const bridge of running) await bridge.end();
      await model.close();
      await rm(folder, { recursive: true, force: true });
    });

    it("loses nothing when the stream of events breaks off, and ends its server when its stdin ends", async () => {
      const bridge = start(CUT_OFF);
      // A request before the server listens waits.
      bridge.tell("not a request");
      const cutter = async (): Promise<void> =>
        void process.kill(Number(await readFile(join(folder, "cutter"), "utf8")), "SIGUSR2");

      // A running command, its result and the text after it fall into the first gap.
      await bridge.prompt(script({ shell: "echo begun; sleep 1; echo ended" }, { say: "After the hole." }));
      await bridge.until((fact) => fact.type === "item.delta" && fact.data.delta.includes("begun"));
      await cutter();
      await bridge.until((fact) => fact.type === "turn.ended");
      expect(bridge.results).toEqual(["begun\nended\n"]);
      expect(bridge.words).toEqual(["After the hole."]);

      // The second gap is in the middle of a text.
      bridge.facts.length = 0;
      await bridge.prompt(
        script({ say: "One. Two." }, { sleep: 700 }, { say: " Three." }, { sleep: 2_000 }, { say: " Four." }),
      );
      await bridge.until((fact) => fact.type === "item.delta");
      await cutter();
      await bridge.until((fact) => fact.type === "turn.ended");
      const words = bridge.words.join("");
      expect(words).toBe("One. Two. Three. Four.");
      expect(bridge.deltas).toBe(words);
      expect(bridge.facts.filter(({ type }) => type === "turn.ended")).toHaveLength(1);
      expect(bridge.facts.filter(({ type }) => type === "agent.unparsed")).toEqual([]);

      expect(await bridge.end()).toEqual([0, null]);
      expect(bridge.stderr).toContain("ignored a line on stdin that is no request");
      expect(await processesWith(folder)).toEqual([]);
    });

    it("ends with its server, and says how that ended", async () => {
      const bridge = start(cli ?? "");
      await bridge.ready();
      earlier = bridge.session ?? "";
      const [server] = await childrenOf(bridge.child);
      process.kill(server ?? 0, "SIGKILL");
      const [code] = await once(bridge.child, "exit");
      expect(code).toBe(1);
      expect(bridge.stderr).toContain("opencode serve ended by SIGKILL");
    });

    it("goes on with an old session or its copy, and says where there is none", async () => {
      const lost = start(cli ?? "", "--resume=ses_nowhere");
      const ended = once(lost.child, "exit");
      const old = start(cli ?? "", `--resume=${earlier}`);
      expect((await ended)[0]).toBe(1);
      expect(lost.stderr).toContain("Session not found");
      await old.ready();
      expect(old.session).toBe(earlier);
      await old.end();
      const copy = start(cli ?? "", `--resume=${earlier}`, "--fork");
      await copy.ready();
      expect(copy.session).toMatch(/^ses_/);
      expect(copy.session).not.toBe(earlier);
      copy.child.kill("SIGTERM");
      expect((await once(copy.child, "exit"))[0]).toBe(143);
      expect(await processesWith(folder)).toEqual([]);
    });

    function start(program: string, ...args: string[]): Bridge {
      const env = {
        ...launched.env,
        PATH: process.env["PATH"] ?? "",
        OPENCODE_REAL: cli ?? "",
        OPENCODE_PID_FILE: join(folder, "cutter"),
        OPENCODE_GAP_MS: String(GAP_MS),
      };
      const [node = "", bridgeFile = ""] = launched.argv;
      const bridge = new Bridge(spawn(node, [bridgeFile, ...args, "--", program], { cwd: folder, env }));
      running.push(bridge);
      return bridge;
    }
  },
);

/** The gateway as a process, and the facts of its lines. */
class Bridge {
  readonly child: ChildProcess;
  readonly facts: HarnessFact[] = [];
  stderr = "";
  #state = opencode.initial(recordedContext("opencode"));
  #at = 0;
  #wake: (() => void)[] = [];

  constructor(child: ChildProcess) {
    this.child = child;
    child.stderr?.on("data", (chunk) => (this.stderr += chunk));
    if (child.stdout) createInterface({ input: child.stdout }).on("line", (text) => this.#take("out", text));
  }

  get session(): string | undefined {
    return this.#state.session;
  }

  tell(text: string): void {
    this.child.stdin?.write(`${text}\n`);
    this.#take("in", text);
  }

  async prompt(text: string): Promise<void> {
    await this.ready();
    const lines = opencode.encode(this.#state, {
      type: "prompt",
      inputId: "inp_1",
      content: [{ type: "text", text }],
    });
    for (const line of lines ?? []) this.tell(line);
  }

  ready(): Promise<void> {
    return this.#when(() => this.#state.session !== undefined);
  }

  until(passes: (fact: HarnessFact) => boolean): Promise<void> {
    return this.#when(() => this.facts.some(passes));
  }

  async end(): Promise<unknown[]> {
    const { child } = this;
    if (child.exitCode !== null || child.signalCode !== null) return [child.exitCode, child.signalCode];
    const exited = once(child, "exit");
    child.stdin?.end();
    return exited;
  }

  get words(): string[] {
    return this.#parts.flatMap((part) => (part.type === "text" ? [part.text] : []));
  }

  get results(): string[] {
    return this.#parts.flatMap((part) => (part.type === "tool_result" ? [part.output] : []));
  }

  get deltas(): string {
    return this.facts.map((fact) => (fact.type === "item.delta" ? fact.data.delta : "")).join("");
  }

  get #parts() {
    return this.facts.flatMap((fact) => (fact.type === "item.completed" ? fact.data.item.content : []));
  }

  #take(dir: "in" | "out", text: string): void {
    const { state, facts, replies = [] } = opencode.decode(this.#state, { dir, text, at: this.#at++ });
    this.#state = state;
    this.facts.push(...facts);
    for (const reply of replies) this.tell(reply);
    for (const wake of this.#wake.splice(0)) wake();
  }

  async #when(isTrue: () => boolean): Promise<void> {
    const gone = once(this.child, "exit").then(() => {
      throw new Error(`the bridge has ended: ${this.stderr}`);
    });
    gone.catch(() => {});
    while (!isTrue()) await Promise.race([new Promise<void>((wake) => this.#wake.push(wake)), gone]);
  }
}

async function childrenOf({ pid }: ChildProcess): Promise<number[]> {
  const text = await readFile(`/proc/${pid}/task/${pid}/children`, "utf8");
  return text.trim().split(" ").map(Number);
}
