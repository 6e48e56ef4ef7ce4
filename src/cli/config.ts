import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { PermissionMode } from "../contract/index.ts";
import { homeFolder } from "../sandbox/data-folder.ts";
import { CliFailure, EXIT } from "./terminal/failure.ts";

const word = z.string().min(1);

const Config = z
  .strictObject({
    server: word,
    token: word,
    agent: word,
    sandbox: word,
    model: word,
    variant: word,
    mode: word,
    permissionMode: PermissionMode,
    instructions: word,
  })
  .partial();

/** The defaults of the config file, each named as its option. Options and the environment override them. */
export type Config = z.infer<typeof Config>;

/** For help texts. */
export const CONFIG_KEYS: string = Object.keys(Config.shape).join(", ");

/** Reads `config.json` or `config.toml` in `$XDG_CONFIG_HOME/sluice`; an absent file has no defaults. */
export async function readConfig(env: NodeJS.ProcessEnv = process.env): Promise<Config> {
  const folder = join(env["XDG_CONFIG_HOME"] || join(homeFolder(env), ".config"), "sluice");
  const [json, toml] = [join(folder, "config.json"), join(folder, "config.toml")];
  const [asJson, asToml] = [readText(json), readText(toml)];
  if (asJson !== undefined && asToml !== undefined)
    throw new CliFailure(`There are two config files: ${json} and ${toml}. Remove one of them.`, EXIT.usage);
  if (asJson !== undefined) return check(json, asJson, parseJson(json, asJson));
  return asToml === undefined ? {} : check(toml, asToml, await parseToml(toml, asToml));
}

function readText(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8").replace(/^\uFEFF/, "");
  } catch (error) {
    // A file that this user cannot see, such as one in a closed home, counts as absent.
    if (!existsSync(file)) return undefined;
    const { code } = error as NodeJS.ErrnoException;
    throw new CliFailure(`The config file ${file} cannot be read (${code}).`, EXIT.usage);
  }
}

function parseJson(file: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The messages of JSON.parse differ between versions of Node, and not all have a position.
    throw broken(file, lineAt(text, findJsonError(text)), "this is not JSON");
  }
}

async function parseToml(file: string, text: string): Promise<unknown> {
  const { parse, TomlError } = await import("smol-toml");
  try {
    return parse(text);
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const why = error.message.split("\n")[0]?.replace(/^Invalid TOML document: /, "") ?? "";
    throw broken(file, error.line, `this is not TOML: ${why}`);
  }
}

function check(file: string, text: string, value: unknown): Config {
  const parsed = Config.safeParse(value);
  if (!parsed.success) throw toFailure(file, text, parsed.error.issues[0]);
  if (parsed.data.token !== undefined && (statSync(file).mode & 0o077) !== 0)
    throw new CliFailure(
      `Others can read the token in ${file}. Close it to them: chmod 600 ${file}`,
      EXIT.usage,
    );
  return parsed.data;
}

function toFailure(file: string, text: string, issue: z.core.$ZodIssue | undefined): CliFailure {
  if (issue?.code === "unrecognized_keys") {
    const [key = ""] = issue.keys;
    return broken(file, lineOfKey(text, key), `there is no key "${key}". The keys are ${CONFIG_KEYS}`);
  }
  const [key] = issue?.path ?? [];
  if (key === undefined) return broken(file, 1, "a config file has one object with keys and values");
  const wanted =
    key === "permissionMode" ? `one of ${PermissionMode.options.join(", ")}` : "a text that is not empty";
  return broken(file, lineOfKey(text, String(key)), `"${String(key)}" has to be ${wanted}`);
}

function broken(file: string, line: number, why: string): CliFailure {
  return new CliFailure(`${file}, line ${line}: ${why}.`, EXIT.usage);
}

function lineOfKey(text: string, key: string): number {
  const lines = text.split("\n");
  const at = lines.findIndex((line) => /^["'\w]/.test(line.trim()) && line.includes(key));
  const anywhere = at < 0 ? lines.findIndex((line) => line.includes(key)) : at;
  return Math.max(0, anywhere) + 1;
}

function lineAt(text: string, offset: number): number {
  return text.slice(0, offset).split("\n").length;
}

/** The offset of the first character that is not valid JSON. */
function findJsonError(text: string): number {
  let at = 0;
  const take = (pattern: RegExp): boolean => {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found) at += found[0].length;
    return found !== null;
  };
  const space = (): boolean => take(/[ \t\r\n]*/y);
  const list = (end: RegExp, member: () => boolean): boolean => {
    if (space() && take(end)) return true;
    while (member()) {
      space();
      if (take(end)) return true;
      if (!take(/,/y)) return false;
      space();
    }
    return false;
  };
  // oxlint-disable-next-line no-control-regex -- a string of JSON has no control characters
  const string = (): boolean => take(/"(?:[^"\\\u0000-\u001F]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y);
  const pair = (): boolean => string() && space() && take(/:/y) && space() && value();
  function value(): boolean {
    if (take(/\{/y)) return list(/\}/y, pair);
    if (take(/\[/y)) return list(/\]/y, value);
    return string() || take(/-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y);
  }
  space();
  if (value()) space();
  return at;
}
