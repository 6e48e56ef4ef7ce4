import { text } from "node:stream/consumers";
import { CliFailure, EXIT } from "./failure.ts";

/** The prompt of the command line; `-`, or none at all while something is piped in, reads standard input. */
export async function readPrompt(
  words: readonly string[],
  stdin: NodeJS.ReadStream = process.stdin,
): Promise<string> {
  const given = words.join(" ");
  const isPiped = !stdin.isTTY;
  const prompt = given === "-" || (given === "" && isPiped) ? await text(stdin) : given;
  if (prompt.trim() !== "") return prompt;
  throw new CliFailure(
    'There is no prompt. Give one, as in: sluice run "say hello", or pipe it in.',
    EXIT.usage,
  );
}
