import { type Command, InvalidArgumentError, Option } from "commander";
import { z } from "zod";
import { type SessionInfo, type Usage, UsageBy, type UsageReport } from "../../contract/index.ts";
import type { UsageQuery } from "../../sessions/fold/usage-report.ts";
import { badUsage } from "../terminal/failure.ts";
import type { CommandContext } from "../terminal/screen.ts";
import { addWhereOptions, locateSource, type WhereOptions } from "../source/locate.ts";
import type { Source } from "../source/port.ts";
import type { Screen } from "../terminal/screen.ts";
import { toOneLine } from "../transcript/pen.ts";

const EXAMPLES = `
The numbers are those that the model gateway has measured, or else those that the agents have reported. Input includes
tokens from a cache if the agent counts them so.

Examples:
  sluice usage
  sluice usage my-session
  sluice usage --by model --from 2026-11-01
  sluice usage my-session --by request
  sluice usage --json | jq -s 'map(.usage.output_tokens // 0) | add'

Exit codes: 0 done · 1 failed, such as an unknown session · 2 bad usage
`;

interface UsageOptions extends WhereOptions {
  readonly json?: boolean;
  readonly by?: UsageBy;
  readonly from?: string;
  readonly to?: string;
}

export function addUsage(program: Command, { screen }: CommandContext): void {
  const command = program
    .command("usage")
    .description("Print the tokens and costs of sessions.")
    .argument("[session]", "the session's id; without one, all sessions and their sum")
    .addOption(
      new Option("--by <what>", "add up by something else, deleted sessions included").choices(
        UsageBy.options,
      ),
    )
    .option("--from <day>", "with --by: the first day in UTC, such as 2026-11-18", parseDay)
    .option("--to <day>", "with --by: the last day", parseDay)
    .option("--json", "one JSON object per session and line");
  addWhereOptions(command)
    .addHelpText("after", EXAMPLES)
    .action((session: string | undefined, options: UsageOptions) => showUsage(session, options, screen));
}

async function showUsage(session: string | undefined, options: UsageOptions, screen: Screen): Promise<void> {
  const source = await locateSource(options);
  try {
    const { by, from, to } = options;
    if (by === undefined && (from ?? to) !== undefined)
      throw badUsage("--from and --to need --by, such as `sluice usage --by day --from 2026-11-01`.");
    if (by !== undefined) return await printReport(source, { by, session, from, to }, options, screen);
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

async function printReport(
  source: Source,
  query: UsageQuery,
  { json }: UsageOptions,
  screen: Screen,
): Promise<void> {
  if ((query.by === "turn" || query.by === "request") && query.session === undefined)
    throw badUsage(`--by ${query.by} needs a session: \`sluice usage my-session --by ${query.by}\`.`);
  const { rows, total } = await source.usage(query);
  if (json) {
    for (const row of rows) await screen.line(JSON.stringify(row));
    return;
  }
  if (rows.length === 0) return screen.note(`No model requests in ${source.where}.`);
  const name = query.by.toUpperCase();
  await screen.line(screen.page.paint.dim(`${name.padEnd(40)}  ${REPORT_HEADINGS}`));
  for (const row of rows) await screen.line(toReportRow(toOneLine(row[query.by] ?? "–", 128), row));
  if (rows.length > 1) await screen.line(screen.page.paint.bold(toReportRow("all", total)));
}

const REPORT_HEADINGS = ["REQUESTS", "INPUT", "CACHE READ", "OUTPUT", "COST"]
  .map((heading) => heading.padStart(12))
  .join("  ");

/** The numbers of requests without a price follow the cost. */
function toReportRow(name: string, sum: UsageReport["total"]): string {
  const { requests, input_tokens, cache_read_tokens, output_tokens, cost_usd: cost } = sum;
  const counts = [requests, input_tokens, cache_read_tokens, output_tokens].map((count) => toGrouped(count));
  const isSum = typeof cost === "number";
  const more = isSum && sum.unknown_requests > 0 ? `  + ${sum.unknown_requests} of unknown price` : "";
  const plan = isSum && sum.plan_requests > 0 ? `  + ${sum.plan_requests} by a plan` : "";
  const columns = [...counts, isSum ? `$${cost.toFixed(4)}` : cost].map((text) => text.padStart(12));
  return `${name.padEnd(40)}  ${columns.join("  ")}${more}${plan}`;
}

function parseDay(text: string): string {
  if (z.iso.date().safeParse(text).success) return text;
  throw new InvalidArgumentError("A day has the form 2026-11-18.");
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
