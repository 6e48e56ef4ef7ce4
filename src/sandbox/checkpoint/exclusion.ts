import { AGENT_CREDENTIALS, HOME_CREDENTIALS } from "./credentials.ts";
import type { CheckpointExcludes } from "./port.ts";

/** What can be made again, or is not meant to last. */
export const DEFAULT_EXCLUDES: CheckpointExcludes = {
  "*": ["node_modules", "__pycache__", "*.pyc", ".cache", ".npm", ".pip", ".venv", "venv"],
  workspace: ["/temp"],
};

/** What a restore that was killed leaves behind. */
export const STAGE_PREFIX = ".sluice-restore-";

/**
 * Which paths of a root are left out, with all that is below them.
 * A pattern without a slash is a name at any depth, one that begins with a slash starts at the root,
 * any other is a run of names at any depth. `*` stands for any letters of one name.
 */
export class Exclusion {
  /** As they were given; the ones that always hold are not among them. */
  readonly patterns: readonly string[];
  readonly #name: RegExp;
  readonly #path: RegExp;
  readonly #holes: ReadonlySet<string>;

  constructor(root: string, patterns: readonly string[], holes: readonly string[] = []) {
    this.patterns = patterns;
    this.#holes = new Set(holes);
    const credentials =
      root === "workspace" ? AGENT_CREDENTIALS : [...AGENT_CREDENTIALS, ...HOME_CREDENTIALS];
    const all = [`/${STAGE_PREFIX}*`, ...credentials, ...patterns];
    this.#name = toExpression(all.filter((pattern) => !pattern.includes("/")));
    this.#path = toExpression(all.filter((pattern) => pattern.includes("/")));
  }

  /** Whether this very entry is; those above it are taken to be inside. */
  matches(path: string, name: string): boolean {
    return this.#name.test(name) || this.#path.test(path) || this.#holes.has(path);
  }

  /** Whether it or anything above it is. */
  covers(path: string): boolean {
    for (let end = path.indexOf("/"); end !== -1; end = path.indexOf("/", end + 1)) {
      if (this.#matchesPath(path.slice(0, end))) return true;
    }
    return this.#matchesPath(path);
  }

  #matchesPath(path: string): boolean {
    return this.matches(path, path.slice(path.lastIndexOf("/") + 1));
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
