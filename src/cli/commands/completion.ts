import { Argument, type Command } from "commander";
import type { CommandContext } from "../terminal/screen.ts";

const EXAMPLES = `
Prints a script that completes the commands and options of sluice, and the ids of sessions.

Examples:
  sluice completion bash > ~/.local/share/bash-completion/completions/sluice
  sluice completion zsh > "\${fpath[1]}/_sluice"
  sluice completion fish > ~/.config/fish/completions/sluice.fish
  source <(sluice completion bash)

Exit codes: 0 done · 2 bad usage
`;

/** A command in the completion scripts. */
interface Entry {
  readonly name: string;
  readonly description: string;
  readonly options: readonly OptionEntry[];
  /** Whether its first argument is a session. */
  readonly takesSession: boolean;
}

interface OptionEntry {
  readonly flags: readonly string[];
  readonly description: string;
  readonly takesValue: boolean;
  readonly choices: readonly string[];
}

/** The script has the commands that the program has when it is printed. */
export function addCompletion(program: Command, { screen }: CommandContext): void {
  program
    .command("completion")
    .description("Print a completion script for a shell.")
    .addArgument(new Argument("<shell>", "the shell").choices(["bash", "zsh", "fish"]))
    .addHelpText("after", EXAMPLES)
    .action((shell: "bash" | "zsh" | "fish") => {
      const entries = program.commands.map(toEntry);
      return screen.line({ bash: toBash, zsh: toZsh, fish: toFish }[shell](entries));
    });
}

function toEntry(command: Command): Entry {
  const options = command.createHelp().visibleOptions(command);
  return {
    name: command.name(),
    description: command.description(),
    options: options.map(({ short, long, description, required, argChoices }) => ({
      flags: [short, long].filter((flag) => flag !== undefined),
      description,
      takesValue: required,
      choices: argChoices ?? [],
    })),
    takesSession: command.registeredArguments[0]?.name() === "session",
  };
}

/** A shell command that prints the ids of sessions; it prints nothing without a server or data. */
const IDS = `sluice sessions --limit 100 2>/dev/null | awk 'NR > 1 { print $1 }'`;

function toBash(entries: readonly Entry[]): string {
  const cases = entries.map(({ name, options }) => {
    const flags = options.flatMap((option) => option.flags).join(" ");
    return `    ${name}) words=${quote(flags)} ;;`;
  });
  const choices = toChoices(entries).map(
    ([flag, values]) =>
      `    ${flag}) COMPREPLY=($(compgen -W ${quote(values.join(" "))} -- "$word")); return ;;`,
  );
  return `# bash completion for sluice
_sluice() {
  local word="\${COMP_WORDS[COMP_CWORD]}" before="\${COMP_WORDS[COMP_CWORD-1]}" words=""
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W ${quote(names(entries).join(" "))} -- "$word"))
    return
  fi
  case "$before" in
${choices.join("\n")}
  esac
  case "\${COMP_WORDS[1]}" in
${cases.join("\n")}
  esac
  if [[ "$word" == -* ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    return
  fi
  case "\${COMP_WORDS[1]}" in
    ${withSession(entries).join("|")})
      [ "$COMP_CWORD" -eq 2 ] && COMPREPLY=($(compgen -W "$(${IDS})" -- "$word")) ;;
    completion) COMPREPLY=($(compgen -W "bash zsh fish" -- "$word")) ;;
    help) COMPREPLY=($(compgen -W ${quote(names(entries).join(" "))} -- "$word")) ;;
  esac
}
complete -o default -F _sluice sluice`;
}

function toZsh(entries: readonly Entry[]): string {
  const commands = entries.map(({ name, description }) => `    ${quote(`${name}:${description}`)}`);
  const cases = entries.map(({ name, options, takesSession }) => {
    const rows = options.flatMap(toZshOptions).map((row) => `      ${row} \\`);
    const rest = takesSession ? "'1:session:_sluice_sessions' '*:: :_files'" : "'*:: :_files'";
    return `    ${name})\n      _arguments -s \\\n${rows.join("\n")}\n      ${rest}\n      ;;`;
  });
  return `#compdef sluice
# zsh completion for sluice
_sluice_sessions() {
  local -a ids
  ids=(\${(f)"$(${IDS})"})
  (( $#ids )) && _describe 'session' ids
}
_sluice() {
  local -a commands
  commands=(
${commands.join("\n")}
  )
  if (( CURRENT == 2 )); then
    _describe 'command' commands
    return
  fi
  local command="$words[2]"
  shift words
  (( CURRENT-- ))
  case "$command" in
${cases.join("\n")}
  esac
}
if [ "$funcstack[1]" = "_sluice" ]; then _sluice "$@"; else compdef _sluice sluice; fi`;
}

function toZshOptions({ flags, description, takesValue, choices }: OptionEntry): string[] {
  const help = description.replaceAll(/[[\]:]/g, (sign) => `\\${sign}`);
  const values = choices.length > 0 ? `(${choices.join(" ")})` : "_files";
  return flags.map((flag) => quote(`${flag}[${help}]${takesValue ? `:value:${values}` : ""}`));
}

function toFish(entries: readonly Entry[]): string {
  const commands = entries.map(
    ({ name, description }) =>
      `complete -c sluice -n __fish_use_subcommand -a ${name} -d ${quote(description)}`,
  );
  const options = entries.flatMap(({ name, options }) =>
    options.map(({ flags, description, takesValue, choices }) => {
      const named = flags.map((flag) =>
        flag.startsWith("--") ? `-l ${flag.slice(2)}` : `-s ${flag.slice(1)}`,
      );
      const values = choices.length > 0 ? ` -xa ${quote(choices.join(" "))}` : "";
      const value = takesValue && values === "" ? " -r" : values;
      return `complete -c sluice -n '__fish_seen_subcommand_from ${name}' ${named.join(" ")}${value} -d ${quote(description)}`;
    }),
  );
  const ids = `complete -c sluice -f -n '__fish_seen_subcommand_from ${withSession(entries).join(" ")}' -a "(${IDS.replaceAll("$1", "\\$1")})"`;
  const shells = "complete -c sluice -f -n '__fish_seen_subcommand_from completion' -a 'bash zsh fish'";
  return ["# fish completion for sluice", ...commands, ...options, ids, shells].join("\n");
}

function names(entries: readonly Entry[]): string[] {
  return [...entries.map(({ name }) => name), "help"];
}

function withSession(entries: readonly Entry[]): string[] {
  return entries.filter(({ takesSession }) => takesSession).map(({ name }) => name);
}

/** The options with a fixed list of values. */
function toChoices(entries: readonly Entry[]): [string, readonly string[]][] {
  const all = entries.flatMap(({ options }) => options).filter(({ choices }) => choices.length > 0);
  const byFlag = new Map(all.flatMap(({ flags, choices }) => flags.map((flag) => [flag, choices] as const)));
  return [...byFlag];
}

function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
