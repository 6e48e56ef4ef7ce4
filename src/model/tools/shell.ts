import { callNative, type Calling, type Native, type Scene } from "./native.ts";

interface Shell {
  readonly command: string;
}

const described = ({ command }: Shell) => ({ command, description: "Run a command" });

const SHELLS: readonly Native<Shell>[] = [
  { tool: "Bash", input: described },
  { tool: "bash", input: described },
  { tool: "run_shell_command", input: described },
  { tool: "exec_command", input: ({ command }) => ({ cmd: command }) },
  { tool: "shell_command", input: described },
  { tool: "shell", input: ({ command }) => ({ command: ["bash", "-lc", command] }) },
  { tool: "run_terminal_command", input: described },
  // Of a client whose tools run elsewhere.
  { tool: "mcp__sluice__bash", input: described },
  { tool: "run_terminal_cmd", input: (shell) => ({ ...described(shell), is_background: false }) },
];

export function callShell(command: string, scene: Scene): Calling | undefined {
  return callNative(SHELLS, { command }, scene);
}

export function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
