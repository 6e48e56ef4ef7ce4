import { splitPath } from "../host/files/open-folder.ts";
import type { CheckpointExcludes } from "./port.ts";

/** Files that a program can make again, or that are temporary. */
export const DEFAULT_EXCLUDES: CheckpointExcludes = {
  "*": ["node_modules", "__pycache__", "*.pyc", ".cache", ".npm", ".pip", ".venv", "venv"],
  workspace: ["/temp"],
};

/** The prefix of a restore's staging folder, which a killed restore leaves behind. */
export const STAGING_PREFIX = ".sluice-restore-";

/**
 * The excluded paths of a root, each with its content. A pattern without a slash is a name at any depth. One that begins
 * with a slash starts at the root. Any other is a sequence of names at any depth. `*` stands for any characters of one
 * name.
 */
export class Exclusion {
  /** The given patterns, without the built-in ones. */
  readonly patterns: readonly string[];
  readonly #name: RegExp;
  readonly #path: RegExp;
  readonly #holes: ReadonlySet<string>;

  constructor(root: string, patterns: readonly string[], holes: readonly string[] = []) {
    this.patterns = patterns;
    this.#holes = new Set(holes);
    const credentials =
      root === "workspace" ? AGENT_CREDENTIALS : [...AGENT_CREDENTIALS, ...HOME_CREDENTIALS];
    const all = [`/${STAGING_PREFIX}*`, ...credentials, ...patterns];
    this.#name = toExpression(all.filter((pattern) => !pattern.includes("/")));
    this.#path = toExpression(all.filter((pattern) => pattern.includes("/")));
  }

  /** Whether this entry itself is excluded, for a caller that knows its parents are not. */
  matches(path: string, name: string): boolean {
    return this.#name.test(name) || this.#path.test(path) || this.#holes.has(path);
  }

  /** Whether the entry or one of its parents is excluded. */
  covers(path: string): boolean {
    for (let end = path.indexOf("/"); end !== -1; end = path.indexOf("/", end + 1)) {
      if (this.#matchesPath(path.slice(0, end))) return true;
    }
    return this.#matchesPath(path);
  }

  #matchesPath(path: string): boolean {
    return this.matches(path, splitPath(path).name);
  }
}

export function toPatterns(root: string, excludes: CheckpointExcludes): readonly string[] {
  return [...(excludes["*"] ?? []), ...(excludes[root] ?? [])];
}

function toExpression(patterns: readonly string[]): RegExp {
  const anchored = patterns.filter((pattern) => pattern.startsWith("/")).map(toSource);
  const anywhere = patterns.filter((pattern) => !pattern.startsWith("/")).map(toSource);
  const parts = [...anchored, ...(anywhere.length > 0 ? [`(?:.*/)?(?:${anywhere.join("|")})`] : [])];
  // A name may hold a newline, so the dot has to stand for it too.
  return new RegExp(parts.length === 0 ? "(?!)" : `^(?:${parts.join("|")})$`, "s");
}

function toSource(pattern: string): string {
  const text = pattern.replace(/^\/+|\/+$/g, "");
  return text.replaceAll(/[.+?^${}()|[\]\\]/g, String.raw`\$&`).replaceAll("*", "[^/]*");
}

/** The agents' own logins: never in a checkpoint, at any depth and in any root. */
export const AGENT_CREDENTIALS: readonly string[] = [
  ".claude/.credentials.json",
  ".codex/auth.json",
  ".gemini/oauth_creds.json",
  ".gemini/*oauth-tokens*.json",
  ".gemini/gemini-credentials.json",
  ".qwen/oauth_creds.json",
  ".local/share/opencode/auth.json",
  ".local/share/opencode/mcp-auth.json",
  ".config/opencode/auth*",
  ".local/share/amp/secrets.json",
  ".grok/auth.json",
  ".kimi/credentials",
  ".factory/auth.*",
  ".config/cursor/auth.json",
  ".config/github-copilot",
  ".scripted/mcp.json",
];

/** Credentials in a home: never in a checkpoint. In a workspace a file of such a name is the user's work, and is kept. */
export const HOME_CREDENTIALS: readonly string[] = [
  // Configuration with keys of providers and MCP servers, rewritten at each launch.
  "/.claude.json*",
  "/.claude/backups",
  "/.codex/config.toml",
  "/.gemini/settings.json",
  "/.gemini/.env",
  "/.gemini/google_accounts.json",
  "/.qwen/settings.json",
  "/.qwen/.env",
  "/.config/opencode/opencode.json*",
  "/.config/opencode/config.json",
  "/.config/amp/settings.json*",
  "/.grok/user-settings.json",
  "/.kimi/config.toml",
  "/.cursor/mcp.json",
  // Logs of requests, which may show a header or a variable.
  "/.claude/debug",
  "/.claude/shell-snapshots",
  "/.codex/shell_snapshots",
  "/.codex/log",
  // Hosts of code and packages.
  ".netrc",
  "_netrc",
  ".git-credentials",
  "/.config/git/credentials",
  "/.config/gh",
  "/.config/glab-cli",
  "/.config/hub",
  ".npmrc",
  ".yarnrc",
  ".yarnrc.yml",
  ".pypirc",
  "/.config/pip/pip.conf",
  "/.pip/pip.conf",
  "/.cargo/credentials*",
  "/.gem/credentials",
  "/.bundle/config",
  "/.composer/auth.json",
  "/.config/composer/auth.json",
  "/.m2/settings*.xml",
  "/.gradle/gradle.properties",
  "/.nuget",
  // Clouds, databases and vaults.
  ".aws",
  ".azure",
  "/.config/gcloud",
  "/.config/doctl",
  "/.config/rclone",
  "/.config/op",
  ".kube",
  "/.docker/config.json",
  "/.config/containers/auth.json",
  ".terraformrc",
  "/.terraform.d/credentials*",
  ".vault-token",
  ".pgpass",
  ".my.cnf",
  ".password-store",
  "/.local/share/keyrings",
  // Keys.
  ".ssh",
  ".gnupg",
  "*.pem",
  "*.key",
  "*.p12",
  "*.pfx",
  "*.jks",
  "*.keystore",
  "*.kdbx",
  "id_rsa*",
  "id_ecdsa*",
  "id_ed25519*",
  // Typed input, which may include passwords.
  ".*_history",
  ".lesshst",
];
