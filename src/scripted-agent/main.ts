import { homedir } from "node:os";
import { parseArgs } from "node:util";
import type { ToolSettings } from "../contract/index.ts";
import { LineSplitter } from "../text/line-splitter.ts";
import { type Agent, Ids } from "./agent.ts";
import { Answers } from "./answers.ts";
import { Memory } from "./memory.ts";
import { Output } from "./output.ts";
import { parseCommand } from "./protocol.ts";
import { McpServers } from "./tools/mcp.ts";
import { killRunningShells } from "./tools/shell.ts";
import { Turns } from "./turns.ts";

/** The scripted agent: commands on stdin, events on stdout, until stdin ends. */
const { values: options } = parseArgs({
  options: {
    resume: { type: "string" },
    model: { type: "string" },
    variant: { type: "string" },
    "mcp-config": { type: "string" },
    tools: { type: "string" },
  },
});

const output = new Output(process.stdout);
process.stdout.on("error", () => process.exit(1));
process.on("exit", killRunningShells);
for (const [signal, code] of [
  ["SIGTERM", 143],
  ["SIGHUP", 129],
] as const) {
  process.on(signal, () => process.exit(code));
}

const home = process.env["HOME"] ?? homedir();
const memory = options.resume === undefined ? Memory.create(home) : Memory.resume(home, options.resume);
if (memory === undefined) void refuse(`There is no session ${JSON.stringify(options.resume)} to resume`);
else serve(memory);

async function refuse(message: string): Promise<void> {
  output.line({ type: "error", code: "unknown_session", message });
  await output.flush();
  process.exit(1);
}

function serve(memory: Memory): void {
  const agent: Agent = {
    output,
    memory,
    answers: new Answers(),
    mcp: new McpServers(options["mcp-config"]),
    allowed: new Set(),
    toolSettings: options.tools === undefined ? {} : (JSON.parse(options.tools) as ToolSettings),
    ids: new Ids(memory.process),
    ...(options.model === undefined ? {} : { model: options.model }),
  };
  const turns = new Turns(agent);
  // As in the real CLIs, Ctrl-C stops the turn and not the agent.
  process.on("SIGINT", () => turns.interrupt());

  output.line({
    type: "session",
    id: memory.id,
    resumed: options.resume !== undefined,
    ...(options.model === undefined ? {} : { model: options.model }),
    ...(options.variant === undefined ? {} : { variant: options.variant }),
  });

  const lines = new LineSplitter(handleLine);
  process.stdin.on("data", (chunk: Buffer) => lines.push(chunk));
  process.stdin.on("end", () => void leave());
  process.stdin.on("error", () => void leave());

  function handleLine(line: string): void {
    if (line.trim() === "") return;
    const command = parseCommand(line);
    if (typeof command === "string") return ignore(command, line);
    switch (command.type) {
      case "prompt":
        return turns.prompt(command);
      case "interrupt":
        return turns.interrupt();
      case "retry":
        if (!agent.answers.retry()) ignore("nothing to retry", line);
        return;
      default:
        if (!agent.answers.deliver(command)) ignore("nobody waits for it", line);
    }
  }

  /** Exits at the end of stdin. Running steps finish; steps that wait for a command end, because none can come. */
  async function leave(): Promise<void> {
    lines.end();
    // Repeated, because a step that runs now may wait for a command later.
    const interval = setInterval(() => turns.giveUpWaiting(), 20);
    await turns.idle();
    clearInterval(interval);
    await output.flush();
    process.exit(0);
  }
}

function ignore(why: string, line: string): void {
  process.stderr.write(`scripted: ignored a line on stdin (${why}): ${line.slice(0, 200)}\n`);
}
