import { CommanderError } from "commander";
import { SluiceClientError } from "../client/index.ts";
import { SluiceError } from "../contract/index.ts";

/** The exit codes of every command. */
export const EXIT = { ok: 0, failed: 1, usage: 2, interrupted: 130 } as const;

/** Something that a person has to be told, with the exit code that it means. */
export class CliFailure extends Error {
  readonly exitCode: number;

  constructor(message: string, exitCode: number = EXIT.failed, options?: ErrorOptions) {
    super(message, options);
    this.name = "CliFailure";
    this.exitCode = exitCode;
  }
}

/** What to print (nothing where it was printed already) and how to exit. */
export function describeFailure(error: unknown): { message?: string; exitCode: number } {
  if (error instanceof CommanderError) return { exitCode: error.exitCode === 0 ? EXIT.ok : EXIT.usage };
  if (error instanceof CliFailure) return { message: error.message, exitCode: error.exitCode };
  if (error instanceof SluiceError || error instanceof SluiceClientError) {
    if (error.code === "session_busy") return { message: toBusy(error.message), exitCode: EXIT.failed };
    return { message: toSentence(error), exitCode: EXIT.failed };
  }
  if (!(error instanceof Error)) return { message: String(error), exitCode: EXIT.failed };
  const code = (error as NodeJS.ErrnoException).code;
  // The system's own errors say enough; any other is a fault of ours, which a stack helps to find.
  return { message: code ? error.message : (error.stack ?? error.message), exitCode: EXIT.failed };
}

/** The title says what kind of thing happened, unless the detail does, or it is only known that something did. */
function toSentence({ code, title, message }: SluiceError | SluiceClientError): string {
  const isTold = code === "internal" || message.startsWith(title);
  return isTold ? message : `${title}. ${message}`;
}

/** Busy is one of two: a turn runs in it, or another process owns it. */
function toBusy(detail: string): string {
  const owned = /run by process/.test(detail);
  const help = owned
    ? "If that is a server, name it with --server URL."
    : "`sluice tail SESSION` shows the turn and ends with it.";
  return `The session is busy: ${detail}. ${help}`;
}
