import { isAbsolute, join } from "node:path";
import type { Step } from "../../scripted-agent/step.ts";
import type { Ask, OfferedTool } from "../ask.ts";
import { asObject } from "../json.ts";

/** A tool of one client, and its arguments for a step. */
export interface Native<S> {
  readonly tool: string;
  /** The arguments in the spellings of all versions. Those that the tool's schema does not name are removed later. */
  input(step: S, scene: Scene): Input;
}

export type Input = Readonly<Record<string, unknown>> | string;

/** Data of the conversation for the arguments of tools. */
export interface Scene {
  readonly ask: Ask;
  /** A path of the script as the client's tools want it. */
  path(path: string): string;
  /** Possible contents of files: outputs of tools, and files that the script wrote. */
  readonly contents: readonly string[];
}

/** A call before it has its id. */
export interface Calling {
  readonly name: string;
  readonly namespace?: string;
  readonly input: Input;
  readonly search?: boolean;
}

/** Calls the first of these tools that the request offers. */
export function callNative<S>(natives: readonly Native<S>[], step: S, scene: Scene): Calling | undefined {
  for (const native of natives) {
    const tool = scene.ask.tools.find(({ name }) => name === native.tool);
    if (tool !== undefined) return toCalling(tool, native.input(step, scene));
  }
  return undefined;
}

export function toCalling(tool: OfferedTool, input: Input): Calling {
  const { name, namespace, within } = tool;
  if (within !== undefined) return { ...within, input: toCode(name, input) };
  const named = namespace === undefined ? { name } : { name, namespace };
  if (typeof input === "string")
    return { ...named, input: tool.freeform ? input : { [textKeyOf(tool.schema)]: input } };
  return { ...named, input: asObject(keepKnown(input, tool.schema)) };
}

/** Code that calls a tool, for clients whose tools only code can call. `name` may be an expression in brackets, too. */
export function toCode(name: string, input: Input): string {
  const member = name.startsWith("[") ? name : `.${name}`;
  const call = `const result = await tools${member}(${JSON.stringify(input)});`;
  return `${call}\ntext(typeof result === "string" ? result : (result?.output ?? result));`;
}

/** The name of a tool's one text argument. */
function textKeyOf(schema: unknown): string {
  const { required, properties } = asObject(schema);
  const [only] = Array.isArray(required) ? required : Object.keys(asObject(properties));
  return typeof only === "string" ? only : "input";
}

/** The value without fields that the schema does not name, at any depth. */
function keepKnown(value: unknown, schema: unknown): unknown {
  const { properties, items } = asObject(schema);
  if (Array.isArray(value))
    return items === undefined ? value : value.map((entry) => keepKnown(entry, items));
  if (properties === undefined || typeof value !== "object" || value === null) return value;
  const known = asObject(properties);
  const kept = Object.entries(value).filter(([key]) => Object.hasOwn(known, key));
  return Object.fromEntries(kept.map(([key, entry]) => [key, keepKnown(entry, known[key])]));
}

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
  // The tool server's tool, in a session whose tools the application runs.
  { tool: "mcp__sluice__bash", input: described },
  { tool: "run_terminal_cmd", input: (shell) => ({ ...described(shell), is_background: false }) },
];

export function callShell(command: string, scene: Scene): Calling | undefined {
  return callNative(SHELLS, { command }, scene);
}

export function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** `before`: the script's steps before this round. */
export function toScene(ask: Ask, before: readonly Step[]): Scene {
  const workspace = findWorkspace(ask);
  const results = ask.entries.flatMap((entry) => (entry.by === "tool" ? entry.texts : []));
  return {
    ask,
    path: (path) => resolvePath(workspace, path),
    contents: [...results, ...writtenBy(before)],
  };
}

/** The contents of the files that these steps write. */
function writtenBy(steps: readonly Step[]): string[] {
  const files = new Map<string, string>();
  const apply = (step: Step): void => {
    if (step.do === "parallel") for (const branch of step.steps) apply(branch);
    if (step.do === "ask") apply(step.tool);
    if (step.do === "write") files.set(step.path, step.content);
    if (step.do === "edit")
      files.set(
        step.path,
        (files.get(step.path) ?? "").replace(step.old, () => step.new),
      );
  };
  for (const step of steps) apply(step);
  return [...files.values()];
}

/** The client's working folder, as its prompts name it. Some clients' tools take absolute paths only. */
function findWorkspace(ask: Ask): string | undefined {
  const texts = [ask.system, ...ask.entries.flatMap((entry) => (entry.by === "user" ? entry.texts : []))];
  for (const text of texts) {
    for (const pattern of WORKSPACE_PATTERNS) {
      const found = pattern.exec(text)?.[1];
      if (found !== undefined) return found.trim();
    }
  }
  return undefined;
}

function resolvePath(workspace: string | undefined, path: string): string {
  return workspace === undefined || isAbsolute(path) ? path : join(workspace, path);
}

const WORKSPACE_PATTERNS = [
  /(?:Primary w|\bW)orking directory: (\/[^\n]*)/,
  /<cwd>(\/[^<\n]*)<\/cwd>/,
  /Workspace Path: (\/[^\n]*)/,
  /Workspace Directories:\**\s*-\s+(\/[^\n]*)/,
  /working in the directory: (\/[^\n]*)/,
];
