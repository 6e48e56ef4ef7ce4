import type { Command } from "commander";
import type { NodeInfo } from "../../../client/index.ts";
import { addWhereOptions, demandServer, type WhereOptions } from "../../source/locate.ts";
import type { CommandContext, Screen } from "../../terminal/screen.ts";
import { toOneLine } from "../../transcript/pen.ts";

const EXAMPLES = `
A node is a server of a database: \`sluice serve --database\`. A server without a database is the only node. The node
that has answered is marked with a star.

Examples:
  sluice nodes
  sluice nodes --server https://sluice.example.com
  sluice nodes --json | jq -r 'select(.state != "live") | .name'

Exit codes: 0 done · 1 failed · 2 bad usage
`;

export function addNodes(program: Command, { screen }: CommandContext): void {
  const command = program
    .command("nodes")
    .description("List the servers that share a database.")
    .option("--json", "one JSON object per line")
    .addHelpText("after", EXAMPLES);
  addWhereOptions(command).action((options: WhereOptions & { json?: boolean }) => listNodes(options, screen));
}

async function listNodes(options: WhereOptions & { json?: boolean }, screen: Screen): Promise<void> {
  const { client } = await demandServer(options);
  for (const node of await client.nodes())
    await screen.line(options.json ? JSON.stringify(node) : describe(node));
}

function describe({ name, state, self, url, version, sessions, startedAt }: NodeInfo): string {
  const parts = [
    `${self ? "*" : " "} ${toOneLine(name, 64)}`,
    state,
    `${sessions} active session${sessions === 1 ? "" : "s"}`,
    url && toOneLine(url, 80),
    version && `version ${toOneLine(version, 20)}`,
    `since ${new Date(startedAt).toISOString().slice(0, 19)}Z`,
  ];
  return parts.filter(Boolean).join("  ");
}
