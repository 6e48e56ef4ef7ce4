import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, afterEach } from "vitest";
import type { SpoolLine } from "../../src/contract/index.ts";
import type { HarnessCommand, HarnessFact } from "../../src/harness/port.ts";
import { recordedContext } from "../../src/harness/recording.ts";
import { scripted } from "../../src/harness/scripted/harness.ts";
import type { AgentLine } from "../../src/scripted-agent/protocol.ts";
import { bundleInto } from "../support/bundle.ts";

type LineOf<T extends AgentLine["type"]> = AgentLine extends infer Line
  ? Line extends { type: infer Type }
    ? T extends Type
      ? Line
      : never
    : never
  : never;

const SOURCE = resolve(import.meta.dirname, "../../src/scripted-agent/main.ts");

/** The agent's executable, bundled from its source as the build does it. */
export async function bundleAgent(folder: string): Promise<string> {
  return bundleInto(join(folder, "scripted.cjs"), SOURCE, { format: "cjs" });
}

/** A lab for the tests of one file. It stops its agents after each test, and removes its files at the end. */
export function openLab(): AgentLab {
  const lab = new AgentLab();
  afterEach(() => lab.stopAll());
  afterAll(() => lab.remove());
  return lab;
}

/** A home, a workspace and a bundled agent for one test file. */
class AgentLab {
  readonly folder = mkdtempSync(join(tmpdir(), "sluice-scripted-"));
  readonly #started: RunningAgent[] = [];
  #bundle: Promise<string> | undefined;

  async start(
    options: { args?: string[]; home?: string; workspace?: string; ready?: boolean } = {},
  ): Promise<RunningAgent> {
    this.#bundle ??= bundleAgent(mkdtempSync(join(this.folder, "bundle-")));
    const home = options.home ?? mkdtempSync(join(this.folder, "home-"));
    const workspace = options.workspace ?? mkdtempSync(join(this.folder, "workspace-"));
    const agent = new RunningAgent(await this.#bundle, { home, workspace, args: options.args ?? [] });
    this.#started.push(agent);
    if (options.ready !== false) await agent.next("session");
    return agent;
  }

  /** Performs a script with an agent of its own. */
  async perform(steps: unknown[]): Promise<{ agent: RunningAgent; lines: AgentLine[] }> {
    const agent = await this.start();
    return { agent, lines: await agent.turn(steps) };
  }

  /** After each test: no live child. */
  async stopAll(): Promise<void> {
    await Promise.all(this.#started.splice(0).map((agent) => agent.kill()));
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

export class RunningAgent {
  readonly home: string;
  readonly workspace: string;
  readonly lines: SpoolLine[] = [];
  readonly said: AgentLine[] = [];
  readonly facts: HarnessFact[] = [];
  readonly exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  stderr = "";
  /** Bytes of stdout behind the last newline. */
  rest = Buffer.alloc(0);
  readonly #child: ChildProcess;
  readonly #watchers = new Set<() => void>();
  #state = scripted.initial({ ...recordedContext("scripted"), idPrefix: "itm_p1n" });
  #pieces: Buffer[] = [];
  #over = false;

  constructor(file: string, options: { home: string; workspace: string; args: string[] }) {
    this.home = options.home;
    this.workspace = options.workspace;
    this.#child = spawn(process.execPath, [file, ...options.args], {
      cwd: options.workspace,
      env: { PATH: process.env["PATH"], HOME: options.home },
      stdio: ["pipe", "pipe", "pipe"],
    });
    this.#child.stdin?.on("error", () => {});
    this.#child.stdout?.on("data", (chunk: Buffer) => this.#read(chunk));
    this.#child.stderr?.on("data", (chunk: Buffer) => {
      this.stderr += chunk.toString();
      this.#wake();
    });
    this.exited = new Promise((done) => {
      this.#child.on("close", (code, signal) => {
        this.#over = true;
        this.rest = Buffer.concat(this.#pieces);
        this.#wake();
        done({ code, signal });
      });
    });
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  prompt(text: string): void {
    this.command({ type: "prompt", inputId: "inp", content: [{ type: "text", text }] });
  }

  /** Performs a script and answers the lines of its turn. */
  async turn(steps: unknown[] | string): Promise<AgentLine[]> {
    const from = this.said.length;
    this.script(steps);
    await this.next("turn.ended", { from });
    return this.said.slice(from);
  }

  script(steps: unknown[] | string): void {
    this.prompt(typeof steps === "string" ? steps : `#script ${JSON.stringify(steps)}`);
  }

  command(command: HarnessCommand): void {
    for (const line of scripted.encode(this.#state, command) ?? []) {
      this.#child.stdin?.write(`${line}\n`);
      this.#decode({ dir: "in", text: line, at: this.lines.length });
    }
  }

  write(text: string): void {
    this.#child.stdin?.write(text);
  }

  writeBytes(bytes: Uint8Array): void {
    this.#child.stdin?.write(bytes);
  }

  endInput(): void {
    this.#child.stdin?.end();
  }

  pause(): void {
    this.#child.stdout?.pause();
  }

  resume(): void {
    this.#child.stdout?.resume();
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** The next line of a type, at or behind `from`. */
  async next<T extends AgentLine["type"]>(
    type: T,
    options: { from?: number; where?: (line: LineOf<T>) => boolean } = {},
  ): Promise<LineOf<T>> {
    let at = options.from ?? 0;
    const found = await this.until(() => {
      for (; at < this.said.length; at++) {
        const line = this.said[at];
        if (line?.type === type && (options.where?.(line as LineOf<T>) ?? true)) return line as LineOf<T>;
      }
      return undefined;
    }, `a line of type ${type}`);
    return found;
  }

  async fact<T extends HarnessFact["type"]>(type: T): Promise<Extract<HarnessFact, { type: T }>> {
    return this.until(
      () =>
        this.facts.findLast((fact) => fact.type === type) as Extract<HarnessFact, { type: T }> | undefined,
      `a fact of type ${type}`,
    );
  }

  async until<T>(look: () => T | undefined, what: string): Promise<T> {
    for (;;) {
      const found = look();
      if (found !== undefined && found !== false) return found;
      if (this.#over) throw new Error(`the agent ended before ${what}; stderr: ${this.stderr}`);
      await new Promise<void>((wake) => this.#watchers.add(wake));
    }
  }

  async kill(): Promise<void> {
    if (!this.#over) this.#child.kill("SIGTERM");
    this.resume();
    await this.exited;
  }

  #read(chunk: Buffer): void {
    let from = 0;
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, from)) {
      this.#pieces.push(chunk.subarray(from, end));
      from = end + 1;
      const bytes = Buffer.concat(this.#pieces);
      this.#pieces = [];
      this.#decode({ dir: "out", text: bytes.toString(), at: this.lines.length });
    }
    if (from < chunk.length) this.#pieces.push(chunk.subarray(from));
    this.#wake();
  }

  #decode(line: SpoolLine): void {
    this.lines.push(line);
    const decoded = scripted.decode(this.#state, line);
    this.#state = decoded.state;
    this.facts.push(...decoded.facts);
    if (line.dir !== "out") return;
    try {
      this.said.push(JSON.parse(line.text) as AgentLine);
    } catch {
      // Scripts may print anything.
    }
  }

  #wake(): void {
    for (const wake of this.#watchers) wake();
    this.#watchers.clear();
  }
}

export function ofType<T extends AgentLine["type"]>(lines: readonly AgentLine[], type: T): LineOf<T>[] {
  return lines.filter((line): line is LineOf<T> => line.type === type);
}
