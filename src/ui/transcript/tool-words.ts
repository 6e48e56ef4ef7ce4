/** A tool's call in words that a person reads at a glance. */
export interface ToolWords {
  readonly sign: string;
  readonly title: string;
  /** The rest of the input; empty where the title says it all. */
  readonly input: string;
  readonly language: string;
}

export function describeTool(name: string, input: string): ToolWords {
  const fields = parse(input);
  const path = textOf(fields["path"] ?? fields["file_path"] ?? fields["filePath"] ?? fields["notebook_path"]);
  const command = textOf(fields["command"] ?? fields["cmd"]);
  const plain = name.toLowerCase();
  if (command !== "" && /^(?:bash|shell|exec|run|local_shell|command)/.test(plain))
    return { sign: "$", title: command, input: command.includes("\n") ? command : "", language: "bash" };
  if (/edit|patch|replace|update/.test(plain) && path !== "")
    return { sign: "±", title: path, input: "", language: "json" };
  if (/write|create/.test(plain) && path !== "")
    return { sign: "✎", title: path, input: textOf(fields["content"]), language: languageOf(path) };
  if (/read|view|cat|open/.test(plain) && path !== "")
    return { sign: "▤", title: path, input: "", language: "json" };
  if (/grep|glob|search|find/.test(plain)) {
    const what = textOf(fields["pattern"] ?? fields["query"]);
    return { sign: "⌕", title: `${name} ${what}`, input: pretty(input, fields), language: "json" };
  }
  if (/subagent|task|agent/.test(plain)) {
    const who = textOf(fields["name"] ?? fields["description"] ?? fields["subagent_type"]);
    return { sign: "»", title: `sub-agent ${who}`, input: pretty(input, fields), language: "json" };
  }
  return { sign: "⚙", title: name, input: pretty(input, fields), language: "json" };
}

/** What a request wants to do, in one line: the command or the path. Undefined where its prompt says it all. */
export function describeAsk(prompt: string, request: unknown): string | undefined {
  const fields =
    typeof request === "string" ? parse(request) : (request as Record<string, unknown> | undefined);
  const input = fields?.["input"];
  if (typeof input !== "object" || input === null) return undefined;
  const name = textOf(fields?.["name"]) || prompt;
  const { sign, title } = describeTool(name, JSON.stringify(input));
  return title === name || prompt.includes(title) ? undefined : `${sign} ${title}`;
}

const LANGUAGES: Readonly<Record<string, string>> = {
  ts: "typescript",
  tsx: "typescript",
  js: "javascript",
  mjs: "javascript",
  jsx: "javascript",
  py: "python",
  rs: "rust",
  go: "go",
  java: "java",
  json: "json",
  css: "css",
  html: "xml",
  xml: "xml",
  svg: "xml",
  yml: "yaml",
  yaml: "yaml",
  sh: "bash",
  sql: "sql",
};

export function languageOf(path: string): string {
  const ending = /\.(\w+)$/.exec(path)?.[1] ?? "";
  return Object.hasOwn(LANGUAGES, ending) ? (LANGUAGES[ending] as string) : "";
}

function pretty(input: string, fields: Record<string, unknown>): string {
  return Object.keys(fields).length > 0 ? JSON.stringify(fields, null, 2) : input === "{}" ? "" : input;
}

function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  return Array.isArray(value) ? value.join(" ") : "";
}

function parse(input: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(input);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : {};
  } catch {
    return {};
  }
}
