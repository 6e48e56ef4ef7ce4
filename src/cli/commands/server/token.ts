import { existsSync } from "node:fs";
import { type Command, Option } from "commander";
import { createCatalog } from "../../../catalog/index.ts";
import { defined } from "../../../contract/own-keys.ts";
import { Scope, type CreatedToken, type CreateToken, type TokenInfo } from "../../../contract/index.ts";
import { Tokens } from "../../../http/access/tokens.ts";
import { dataDirOf, ensureDataDir } from "../../source/data-folder.ts";
import { addWhereOptions, locateServer, noData, type WhereOptions } from "../../source/locate.ts";
import { parseShortDuration } from "../../terminal/amount.ts";
import { CliFailure } from "../../terminal/failure.ts";
import type { CommandContext, Screen } from "../../terminal/screen.ts";
import { toOneLine } from "../../transcript/pen.ts";

const EXAMPLES = `
Scopes, each with all before it:
  read     read sessions, events and files
  answer   also answer permissions, questions and tool calls of agents
  control  also create, run, change and delete sessions
  admin    also tokens, credentials and metrics

A running server accepts a new token at once and refuses a revoked one at once: its open streams close within seconds.
A token is printed once; the server stores only its hash.

Examples:
  sluice token create --scope read --session ses_… --expires 7d
  TOKEN=$(sluice token create --scope control --workspace team-a --json | jq -r .token)
  sluice token list
  sluice token revoke tok_…

Exit codes: 0 done · 1 failed · 2 bad usage
`;

interface CreateOptions extends WhereOptions {
  readonly scope: Scope;
  readonly session?: string;
  readonly workspace?: string;
  readonly name?: string;
  /** In milliseconds. */
  readonly expires?: number;
  readonly json?: boolean;
}

export function addToken(program: Command, { screen }: CommandContext): void {
  const token = program
    .command("token")
    .description("Create, list and revoke tokens with a scope.")
    .addHelpText("after", EXAMPLES);
  const create = token
    .command("create")
    .description("Create a token and print it.")
    .addOption(new Option("--scope <scope>", "what it permits").choices(Scope.options).makeOptionMandatory())
    .option("--session <id>", "it reaches this session alone")
    .option("--workspace <name>", "it reaches the sessions of this workspace alone")
    .option("--name <name>", "a name for people")
    .option(
      "--expires <duration>",
      "how long it is valid, such as 7d (default: until it is revoked)",
      parseShortDuration,
    )
    .option("--json", 'one JSON object: {"id","token",…}');
  addWhereOptions(create).action((options: CreateOptions) => createToken(options, screen));
  const list = token
    .command("list")
    .description("List the tokens that are valid.")
    .option("--json", "one JSON object per line");
  addWhereOptions(list).action((options: WhereOptions & { json?: boolean }) => listTokens(options, screen));
  const revoke = token.command("revoke").argument("<id>").description("End a token at once.");
  addWhereOptions(revoke).action((id: string, options: WhereOptions) => revokeToken(id, options, screen));
}

async function createToken(options: CreateOptions, screen: Screen): Promise<void> {
  const { scope, session, workspace, name, expires } = options;
  const expiresIn = expires === undefined ? undefined : Math.ceil(expires / 1000);
  const wanted: CreateToken = { scope, ...defined({ session, workspace, name, expiresIn }) };
  const made = await withTokens(options, (tokens) => tokens.create(wanted), { makes: true });
  await screen.line(options.json ? JSON.stringify(made) : made.token);
  if (!options.json) screen.note(`${made.id}: ${describe(made)}. It is not shown again.`);
}

async function listTokens(options: WhereOptions & { json?: boolean }, screen: Screen): Promise<void> {
  await withTokens(options, async (tokens) => {
    let count = 0;
    for await (const token of tokens.list()) {
      count += 1;
      await screen.line(options.json ? JSON.stringify(token) : `${token.id}  ${describe(token)}`);
    }
    if (count === 0) screen.note("No tokens but the server's own. `sluice token create` makes one.");
  });
}

async function revokeToken(id: string, options: WhereOptions, screen: Screen): Promise<void> {
  await withTokens(options, (tokens) => tokens.revoke(id)).catch((error: unknown) => {
    if ((error as { code?: unknown }).code !== "not_found") throw error;
    throw new CliFailure(`There is no token ${id}. \`sluice token list\` lists the tokens.`);
  });
  screen.note(`${id} is no longer valid.`);
}

function describe({ scope, session, workspace, name, expiresAt }: TokenInfo): string {
  const until = expiresAt === undefined ? "" : `until ${new Date(expiresAt).toISOString().slice(0, 19)}Z`;
  const parts = [
    scope,
    session && `session ${session}`,
    workspace && `workspace ${workspace}`,
    until,
    name && toOneLine(name, 40),
  ];
  return parts.filter(Boolean).join(" · ");
}

interface TokenSource {
  create(wanted: CreateToken): Promise<CreatedToken>;
  list(): AsyncIterable<TokenInfo>;
  revoke(id: string): Promise<void>;
}

/** Runs the task on the tokens of a server; without one, on those of the data folder, which its servers read. */
async function withTokens<T>(
  where: WhereOptions,
  work: (tokens: TokenSource) => Promise<T>,
  { makes = false }: { makes?: boolean } = {},
): Promise<T> {
  const server = await locateServer(where);
  if (server) return work(server.client.tokens);
  const folder = dataDirOf(where.data);
  if (!makes && !existsSync(folder)) throw noData(folder);
  const catalog = createCatalog({ folder: ensureDataDir(folder) });
  const tokens = new Tokens(catalog);
  try {
    return await work({
      create: (wanted) => tokens.create(wanted),
      revoke: (id) => tokens.revoke(id),
      async *list() {
        for (let after: number | undefined; ;) {
          const page = await tokens.list({ after, limit: 100 });
          yield* page.tokens;
          if (page.next === undefined) return;
          after = Number(page.next);
        }
      },
    });
  } finally {
    await catalog.close();
  }
}
