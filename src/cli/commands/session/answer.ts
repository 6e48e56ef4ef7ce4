import type { Command } from "commander";
import type { PendingAction } from "../../../contract/index.ts";
import type { CommandContext } from "../../terminal/screen.ts";
import { toChosen } from "../../run/request-prompt.ts";
import { addServerOptions, locateControls, type WhereOptions } from "../../source/locate.ts";
import type { Answer } from "../../source/port.ts";
import { CliFailure, EXIT } from "../../terminal/failure.ts";
import type { Screen } from "../../terminal/screen.ts";
import { toOneLine } from "../../transcript/pen.ts";
import { toRequestSubject } from "../../transcript/render.ts";

const EXAMPLES = `
A permission is answered with once, always or reject; words after reject are told to the agent. A question is answered
with a text, with the number of an option, or with reject and the reason. A tool that the application runs is answered with its output,
or with reject and the reason. The first answer wins, whichever client gives it.

Examples:
  sluice answer my-session perm_… once
  sluice answer my-session perm_… reject "not on this branch"
  sluice answer my-session ques_… "the blue one"
  sluice answer my-session            (lists the open requests)

Exit codes: 0 answered · 1 failed, such as a request that somebody else has answered · 2 bad usage
`;

interface AnswerOptions extends WhereOptions {
  readonly json?: boolean;
}

export function addAnswer(program: Command, { screen }: CommandContext): void {
  const command = program
    .command("answer")
    .description("Answer an agent's permission request, question or tool call.")
    .argument("<session>", "the session's id")
    .argument("[action]", "the request's id; without one, the open requests are listed")
    .argument("[answer...]", "once, always, reject [words], or a text")
    .option("--json", "list the open requests as JSON, one per line");
  addServerOptions(command)
    .addHelpText("after", EXAMPLES)
    .action(async (session: string, action: string | undefined, words: string[], options: AnswerOptions) => {
      if (action === undefined) return list(session, options, screen);
      if (words.join(" ").trim() === "") throw noAnswer(session, action);
      await answer(session, action, { words, options, screen });
    });
}

async function list(session: string, options: AnswerOptions, screen: Screen): Promise<void> {
  const controls = await locateControls(options);
  const { pendingActions } = await controls.info(session);
  if (pendingActions.length === 0) screen.note(`No request of ${session} waits for an answer.`);
  for (const action of pendingActions)
    await screen.line(options.json ? JSON.stringify(action) : toLine(action));
}

async function answer(
  session: string,
  action: string,
  given: { words: readonly string[]; options: WhereOptions; screen: Screen },
): Promise<void> {
  const controls = await locateControls(given.options);
  const { pendingActions } = await controls.info(session);
  const pending = pendingActions.find(({ id }) => id === action);
  if (!pending && !kindOf(action)) throw unknownAction(session, action, pendingActions);
  const reply = toAnswer(pending ?? { kind: kindOf(action) ?? "question" }, given.words);
  await controls.answer(session, action, reply).catch((error: unknown) => {
    const { code } = error as { code?: unknown };
    throw code === "action_not_found" ? unknownAction(session, action, pendingActions) : error;
  });
}

function toAnswer(
  { kind, options = [] }: Pick<PendingAction, "kind" | "options">,
  words: readonly string[],
): Answer {
  const [first = "", ...rest] = words;
  const isRejected = first === "reject";
  const reason = rest.join(" ");
  if (kind === "permission") return toPermission(first, reason);
  if (kind === "tool") {
    const output = isRejected ? reason || "The tool was not run." : words.join(" ");
    return { kind, output, isError: isRejected };
  }
  if (isRejected) return { kind: "question", text: undefined, message: reason || undefined };
  return { kind: "question", text: toChosen(words.join(" "), options) };
}

function toPermission(reply: string, reason: string): Answer {
  if (reply === "reject") return { kind: "permission", reply, message: reason || undefined };
  if ((reply === "once" || reply === "always") && reason === "") return { kind: "permission", reply };
  throw new CliFailure("A permission is answered with once, always or reject [words].", EXIT.usage);
}

/**
 * The kind of a request that is no longer open, by the prefix of its id. The server then reports how it was answered.
 */
function kindOf(action: string): PendingAction["kind"] | undefined {
  const kinds = { perm: "permission", ques: "question", treq: "tool" } as const;
  return kinds[action.split("_")[0] as keyof typeof kinds];
}

function noAnswer(session: string, action: string): CliFailure {
  return new CliFailure(
    `There is no answer. Give one, as in: \`sluice answer ${session} ${action} once\`; always, reject or a text.`,
    EXIT.usage,
  );
}

function unknownAction(session: string, action: string, open: readonly PendingAction[]): CliFailure {
  const others = open.length === 0 ? "None is open." : `Open:\n${open.map(toLine).join("\n")}`;
  return new CliFailure(`No open request of ${session} has the id "${action}". ${others}`);
}

/** A person decides by the input, too: the command to run, or the arguments of the tool. */
function toLine({ kind, id, prompt, input, options = [] }: PendingAction): string {
  const choices =
    options.length === 0 ? "" : ` (${options.map((option) => toOneLine(option, 40)).join(" | ")})`;
  const subject = kind === "question" || input === undefined ? "" : `  ${toRequestSubject(input)}`;
  return `${id}  ${kind.padEnd(10)}  ${toOneLine(prompt, 120)}${subject}${choices}`;
}
