import type { Command } from "commander";
import type { SessionInfo, Usage } from "../../contract/index.ts";
import type { CommandContext } from "../terminal/screen.ts";
import { addWhereOptions, locateSource, type WhereOptions } from "../source/locate.ts";
import type { Source } from "../source/port.ts";
import type { Screen } from "../terminal/screen.ts";
import { toOneLine } from "../transcript/pen.ts";

const EXAMPLES = `
The numbers are those that the agents have reported. Input includes tokens from a cache if the agent counts them so.

Examples:
  sluice usage
  sluice usage my-session
  sluice usage --json | jq -s 'map(.usage.output_tokens // 0) | add'

Exit codes: 0 done · 1 failed, such as an unknown session · 2 bad usage
`;

interface UsageOptions extends WhereOptions {
  readonly json?: boolean;
}

export function addUsage(program: Command, { screen }: CommandContext): void {
  const command = program
    .command("usage")
    .description("Print the tokens and costs of sessions.")
    .argument("[session]", "the session's id; without one, all sessions and their sum")
    .option("--json", "one JSON object per session and line");
  addWhereOptions(command)
    .addHelpText("after", EXAMPLES)
    .action((session: string | undefined, options: UsageOptions) => showUsage(session, options, screen));
}

async function showUsage(session: string | undefined, options: UsageOptions, screen: Screen): Promise<void> {
  const source = await locateSource(options);
  try {
    await printUsage(source, session, { isJson: options.json ?? false, screen });
  } finally {
    await source.close();
  }
}

async function printUsage(
  source: Source,
  session: string | undefined,
  { isJson, screen }: { isJson: boolean; screen: Screen },
): Promise<void> {
  const sessions = session === undefined ? source.sessions() : [await source.info(session)];
  let sum: Usage = {};
  let count = 0;
  for await (const info of sessions) {
    if (screen.closed.aborted) return;
    if (count === 0 && !isJson) await screen.line(screen.page.paint.dim(HEADINGS));
    count += 1;
    sum = add(sum, info.usage);
    await screen.line(isJson ? JSON.stringify(toRecord(info)) : toRow(info));
  }
  if (count === 0) screen.note(`No sessions in ${source.where}.`);
  if (count > 1 && !isJson) await screen.line(screen.page.paint.bold(toColumns("all", "", "", sum)));
}

const HEADINGS =
  `${"SESSION".padEnd(24)}  ${"AGENT".padEnd(8)}  ${"INPUT".padStart(12)}  ${"CACHE READ".padStart(12)}  ` +
  `${"OUTPUT".padStart(12)}  ${"COST".padStart(9)}  MODEL`;

function toRow({ sessionId, agent, model, usage }: SessionInfo): string {
  return toColumns(toOneLine(sessionId, 128), toOneLine(agent, 40), toOneLine(model ?? "", 60), usage);
}

function toColumns(id: string, agent: string, model: string, usage: Usage): string {
  const { input_tokens: input, cache_read_tokens: cached, output_tokens: output, cost_usd: cost } = usage;
  const numbers = [input, cached, output].map((count) => toGrouped(count).padStart(12));
  const dollars = (cost === undefined ? "–" : `$${cost.toFixed(4)}`).padStart(9);
  return `${id.padEnd(24)}  ${agent.padEnd(8)}  ${numbers.join("  ")}  ${dollars}  ${model}`.trimEnd();
}

function toRecord({ sessionId, agent, model, usage }: SessionInfo): object {
  return { sessionId, agent, model, usage };
}

/** 1,200 tokens in, 340 out, $0.0123. */
export function toUsageWords({ input_tokens: input, output_tokens: output, cost_usd: cost }: Usage): string {
  if (input === undefined && output === undefined) return "none reported";
  const dollars = cost === undefined ? "" : `, $${cost.toFixed(4)}`;
  return `${toGrouped(input ?? 0)} tokens in, ${toGrouped(output ?? 0)} out${dollars}`;
}

function toGrouped(count: number | undefined): string {
  return count === undefined ? "–" : count.toLocaleString("en");
}

function add(sum: Usage, usage: Usage): Usage {
  const keys = [...Object.keys(sum), ...Object.keys(usage)] as (keyof Usage)[];
  return Object.fromEntries(keys.map((key) => [key, (sum[key] ?? 0) + (usage[key] ?? 0)]));
}
