import { type Command, InvalidArgumentError, Option } from "commander";
import { defined } from "../../../contract/own-keys.ts";
import {
  type CreateWebhook,
  WebhookDialect,
  type WebhookInfo,
  WebhookType,
} from "../../../contract/index.ts";
import { addWhereOptions, demandServer, type WhereOptions } from "../../source/locate.ts";
import { CliFailure } from "../../terminal/failure.ts";
import type { CommandContext, Screen } from "../../terminal/screen.ts";
import { toOneLine } from "../../transcript/pen.ts";

const EXAMPLES = `
Types: ${WebhookType.options.join(", ")}

The secret is printed once. Messages are signed by Standard Webhooks, so any of its libraries verifies them.

Examples:
  sluice webhook create https://example.com/hook --type ask.opened --type turn.ended
  SECRET=$(sluice webhook create https://example.com/hook --json | jq -r .secret)
  sluice webhook list
  sluice webhook test whk_…
  sluice webhook rm whk_…

Exit codes: 0 done · 1 failed, also a test that was not accepted · 2 bad usage
`;

interface CreateOptions extends WhereOptions {
  readonly type?: readonly WebhookType[];
  readonly as?: WebhookDialect;
  readonly session?: string;
  readonly agent?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly workspace?: string;
  readonly name?: string;
  readonly json?: boolean;
}

export function addWebhook(program: Command, { screen }: CommandContext): void {
  const webhook = program
    .command("webhook")
    .description("Create, list, test and remove webhooks of a running server.")
    .addHelpText("after", EXAMPLES);
  const create = webhook
    .command("create")
    .argument("<url>")
    .description("Register an address that gets events, and print its secret.")
    .option("--type <type>", "report this type; may be repeated (default: all)", addType)
    .addOption(new Option("--as <dialect>", "the dialect of the payload").choices(WebhookDialect.options))
    .option("--session <id>", "events of this session alone")
    .option("--agent <agent>", "events of sessions with this agent alone")
    .option("--metadata <name=value>", "events of sessions with this metadata; may be repeated", addPair)
    .option("--workspace <name>", "events of this workspace")
    .option("--name <name>", "a name for people")
    .option("--json", 'one JSON object: {"id","secret",…}');
  addWhereOptions(create).action((url: string, options: CreateOptions) =>
    createWebhook(url, options, screen),
  );
  const list = webhook
    .command("list")
    .description("List the webhooks and their state.")
    .option("--json", "one JSON object per line");
  addWhereOptions(list).action((options: WhereOptions & { json?: boolean }) => listWebhooks(options, screen));
  const test = webhook.command("test").argument("<id>").description("Send one test message.");
  addWhereOptions(test).action((id: string, options: WhereOptions) => testWebhook(id, options, screen));
  const rm = webhook.command("rm").argument("<id>").description("Remove a webhook.");
  addWhereOptions(rm).action((id: string, options: WhereOptions) => removeWebhook(id, options, screen));
}

function addType(text: string, before: readonly WebhookType[] = []): readonly WebhookType[] {
  const parsed = WebhookType.safeParse(text);
  if (parsed.success) return [...before, parsed.data];
  throw new InvalidArgumentError(`Types: ${WebhookType.options.join(", ")}.`);
}

function addPair(text: string, before: Record<string, string> = {}): Record<string, string> {
  const at = text.indexOf("=");
  if (at > 0) return { ...before, [text.slice(0, at)]: text.slice(at + 1) };
  throw new InvalidArgumentError("Metadata has the form name=value.");
}

async function createWebhook(url: string, options: CreateOptions, screen: Screen): Promise<void> {
  const { type, as, session, agent, metadata, workspace, name } = options;
  const types = type && [...type];
  const wanted: CreateWebhook = { url, ...defined({ types, as, session, agent, metadata, workspace, name }) };
  const { client } = await demandServer(options);
  const made = await client.webhooks.create(wanted);
  await screen.line(options.json ? JSON.stringify(made) : made.secret);
  if (!options.json) screen.note(`${made.id}: ${describe(made)}. The secret is not shown again.`);
}

async function listWebhooks(options: WhereOptions & { json?: boolean }, screen: Screen): Promise<void> {
  const { client } = await demandServer(options);
  let count = 0;
  for await (const webhook of client.webhooks.list()) {
    count += 1;
    await screen.line(options.json ? JSON.stringify(webhook) : `${webhook.id}  ${describe(webhook)}`);
  }
  if (count === 0) screen.note("No webhooks. `sluice webhook create URL` makes one.");
}

async function testWebhook(id: string, options: WhereOptions, screen: Screen): Promise<void> {
  const { client } = await demandServer(options);
  const { delivered, problem = "" } = await client.webhooks.test(id);
  if (!delivered) throw new CliFailure(`The test message was not accepted: ${toOneLine(problem, 200)}`);
  screen.note("The test message was accepted.");
}

async function removeWebhook(id: string, options: WhereOptions, screen: Screen): Promise<void> {
  const { client } = await demandServer(options);
  await client.webhooks.delete(id);
  screen.note(`${id} is removed.`);
}

function describe(webhook: WebhookInfo): string {
  const { url, types, as, session, agent, metadata = {}, workspace, name } = webhook;
  const { enabled, disabledReason, failures, problem = "" } = webhook;
  const state = failures > 0 ? `${failures} failed attempts (${toOneLine(problem, 60)})` : "";
  const parts = [
    toOneLine(url, 80),
    types.join(" "),
    as === "universal" ? "" : as,
    session && `session ${session}`,
    agent && `agent ${agent}`,
    ...Object.entries(metadata).map(([key, value]) => toOneLine(`${key}=${value}`, 40)),
    workspace && `workspace ${workspace}`,
    name && toOneLine(name, 40),
    enabled ? state : toOneLine(disabledReason ?? "disabled", 160),
  ];
  return parts.filter(Boolean).join(" · ");
}
