import type { Command } from "commander";
import { describeDatabase } from "../database-check.ts";
import { type AgentDiagnostics, type Diagnostics, diagnose, type Finding } from "../diagnostics.ts";
import { findRemedy, runRemedy } from "../fix.ts";
import type { DatabaseOptions } from "../source/database.ts";
import { EXIT } from "../terminal/failure.ts";
import { addWhereOptions, type WhereOptions } from "../source/locate.ts";
import { nameProgram } from "../terminal/invocation.ts";
import type { CommandContext, Screen } from "../terminal/screen.ts";
import type { Page } from "../transcript/pen.ts";

const EXAMPLES = `
Examples:
  sluice doctor
  sluice doctor --json | jq .agents
  sluice doctor --fix
  sluice doctor --database postgres://sluice@db.example.com/sluice
  sluice doctor --fix --yes
  sluice doctor --sandbox kubernetes

Exit codes: 0 sluice can run here · 1 it cannot: Node, SQLite, data folder, agents, isolation or database · 2 bad usage
`;

export function addDoctor(program: Command, { screen, exit }: CommandContext): void {
  const command = program
    .command("doctor")
    .description("Check this machine: agents, isolation, data folder, server.")
    .option("--json", "as one JSON object")
    .option("--fix", "run the one command that helps, after a confirmation")
    .option("-y, --yes", "run it without a confirmation")
    .option(
      "--sandbox <name>",
      "check this sandbox of another machine, too: kubernetes, e2b, ssh://user@host",
    )
    .option("--database <url>", "check this PostgreSQL database, too (default: $SLUICE_DATABASE)")
    .option("--database-direct <url>", "the same database without a pooler");
  addWhereOptions(command)
    .addHelpText("after", EXAMPLES)
    .action(async (options: DoctorOptions) => {
      const diagnostics = options.fix ? await fix(options, screen) : await diagnose(options);
      await screen.line(
        options.json ? JSON.stringify(diagnostics, null, 2) : toReport(diagnostics, screen.page),
      );
      exit(canRun(diagnostics) ? EXIT.ok : EXIT.failed);
    });
}

interface DoctorOptions extends WhereOptions, DatabaseOptions {
  readonly sandbox?: string;
  readonly json?: boolean;
  readonly fix?: boolean;
  readonly yes?: boolean;
}

/** Runs the remedy, if there is one, and looks again. */
async function fix(options: DoctorOptions, screen: Screen): Promise<Diagnostics> {
  const before = await diagnose(options);
  const remedy = findRemedy(before);
  if (remedy === undefined) {
    screen.note(
      canRun(before)
        ? "There is nothing to fix."
        : "No command of sluice's can fix this; the report says what to do.",
    );
    return before;
  }
  await runRemedy(remedy, { isSure: options.yes ?? false, screen });
  return diagnose(options);
}

/** Whether sluice can run here. It needs no server for that. */
function canRun({ node, sqlite, data, agents, defaultSandbox, database }: Diagnostics): boolean {
  if (database?.ok === false) return false;
  return node.ok && sqlite.ok && data.ok && agents.some(({ ok }) => ok) && defaultSandbox !== null;
}

function toReport(diagnostics: Diagnostics, page: Page): string {
  const { version, node, sqlite, data, server, agents, sandboxes, database } = diagnostics;
  const row = (finding: Finding, name: string, what = "") => toRow(page, finding, name, what);
  const sessions =
    data.sessions === undefined ? "" : `${data.sessions} session${data.sessions === 1 ? "" : "s"} so far`;
  return [
    page.paint.bold(`sluice ${version}`),
    row(node, "node", node.version),
    row(sqlite, "sqlite", `${sqlite.version ?? ""} (${sqlite.driver})`.trim()),
    row(
      data,
      "data",
      [data.folder, sessions, data.token ? "has a token" : "no token yet"].filter(Boolean).join(", "),
    ),
    row(server, "server", server.url),
    ...(database ? [row(database, "database", describeDatabase(database))] : []),
    "",
    page.paint.bold("agents"),
    ...agents.flatMap((agent) =>
      [row(agent, agent.id, toAgent(agent))].concat(toChoices(agent).map((line) => page.paint.dim(line))),
    ),
    "",
    page.paint.bold("sandboxes"),
    ...sandboxes.flatMap((sandbox) =>
      [row(sandbox, sandbox.id, sandbox.isolated && sandbox.ok ? "isolated" : "")].concat(
        sandbox.command === undefined ? [] : `${" ".repeat(13)}${sandbox.command}`,
      ),
    ),
    diagnostics.defaultSandbox === null
      ? page.paint.yellow("✗ no isolation: sessions are refused unless --sandbox local")
      : page.paint.dim(`${" ".repeat(13)}default sandbox: ${diagnostics.defaultSandbox}`),
  ].join("\n");
}

function toAgent({ title, version, credentials, credential }: AgentDiagnostics): string {
  const key = credentials?.found.length ? `key: ${credentials.found.join(", ")}` : undefined;
  const place = credential === undefined ? undefined : `credential: ${credential}`;
  return [[title, version].filter(Boolean).join(" "), key, place].filter(Boolean).join(" · ");
}

/** The choices of an installed agent, as options of `sluice run`. */
function toChoices({ ok, choices }: AgentDiagnostics): string[] {
  if (!ok || !choices) return [];
  const rows = [
    ["--mode", choices.modes],
    ["--variant", choices.variants],
    ["--model", choices.models],
  ] as const;
  return rows.flatMap(([option, values]) =>
    values?.length ? [`${" ".repeat(13)}${option} ${values.join(", ")}`] : [],
  );
}

function toRow({ paint, command }: Page, { ok, hint }: Finding, name: string, what: string): string {
  const mark = ok ? paint.green("✓") : paint.yellow("✗");
  const facts = [what, hint && paint.dim(nameProgram(hint, command))].filter(Boolean).join(" · ");
  return `${mark} ${name.padEnd(10)} ${facts}`.trimEnd();
}
