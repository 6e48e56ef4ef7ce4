import type { Screen } from "./terminal/screen.ts";

/** A command's output, exit code and command line. */
export interface CommandContext {
  readonly screen: Screen;
  readonly exit: (code: number) => void;
  /** The whole command line, including `--`. */
  readonly argv: readonly string[];
}
