import type { Command } from "commander";

/** The options of every command that reads sessions from a server or from the data folder. */
export function addWhereOptions(command: Command): Command {
  return command
    .option(
      "--server <url>",
      "the server to ask (default: $SLUICE_URL, then http://127.0.0.1:7411 if it answers)",
    )
    .option("--token <token>", "its token (default: $SLUICE_TOKEN, then the token file of the data folder)")
    .option(
      "--data <folder>",
      "the data folder to read where no server is found (default: $XDG_DATA_HOME/sluice)",
    );
}

/** The same place in the words of a command line, for whoever types the next one. */
export function toWhereWords({ server, data }: { server?: string; data?: string | undefined }): string {
  const words = Object.entries({ server, data }).filter(([, value]) => value !== undefined);
  return words.map(([name, value]) => ` --${name} ${quoteWord(value ?? "")}`).join("");
}

/** As a shell takes it. */
export function quoteWord(word: string): string {
  return /^[\w./:@%+=,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
