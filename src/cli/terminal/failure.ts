import { CommanderError } from "commander";
import { SluiceClientError } from "../../client/index.ts";
import { SluiceError } from "../../contract/index.ts";

/** The exit codes of all commands. */
export const EXIT = { ok: 0, failed: 1, usage: 2, interrupted: 130 } as const;

/** An error message for people, with its exit code. */
export class CliFailure extends Error {
  readonly exitCode: number;

  constructor(message: string, exitCode: number = EXIT.failed, options?: ErrorOptions) {
    super(message, options);
    this.name = "CliFailure";
    this.exitCode = exitCode;
  }
}

/** The failure of a wrong command line. */
export function badUsage(message: string): CliFailure {
  return new CliFailure(message, EXIT.usage);
}

/** The message and the exit code. Commander prints its own messages, so its errors have none here. */
export function describeFailure(error: unknown): { message?: string; exitCode: number } {
  if (error instanceof CommanderError) return { exitCode: error.exitCode === 0 ? EXIT.ok : EXIT.usage };
  if (error instanceof CliFailure) return { message: error.message, exitCode: error.exitCode };
  if (error instanceof SluiceError || error instanceof SluiceClientError) {
    if (error.code === "token_invalid") return { message: toWrongToken(error), exitCode: EXIT.failed };
    if (error.code === "session_busy") return { message: toBusy(error), exitCode: EXIT.failed };
    return { message: toSentence(error), exitCode: EXIT.failed };
  }
  if (!(error instanceof Error)) return { message: String(error), exitCode: EXIT.failed };
  const code = (error as NodeJS.ErrnoException).code;
  // A system error explains itself; any other error is a bug, which needs its stack.
  return { message: code ? error.message : (error.stack ?? error.message), exitCode: EXIT.failed };
}

/** The server speaks of headers; at a command line the token comes from elsewhere. */
function toWrongToken({ message }: Error): string {
  const what = message.split(". ")[0];
  return `${what}. Set SLUICE_TOKEN to the server's own token: it is in the file \`token\` of its data folder.`;
}

/** The title and the detail; without the title if it says nothing new. */
function toSentence({ code, title, message }: SluiceError | SluiceClientError): string {
  const isEnough = code === "internal" || message.startsWith(title);
  return isEnough ? message : `${title}. ${message}`;
}

/** A session is busy with a turn, or another process holds its lease. */
function toBusy({ message, facts }: SluiceError | SluiceClientError): string {
  const isLeased = facts["holder"] !== undefined;
  const help = isLeased
    ? "If that is a server, name it with --server URL."
    : "`sluice attach SESSION` shows the turn, `sluice interrupt SESSION` ends it.";
  return `The session is busy: ${message}. ${help}`;
}
