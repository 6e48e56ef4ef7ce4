/** Names that are never looked at, wherever they are: their insides are many and nobody's work. */
const IGNORED_NAMES: ReadonlySet<string> = new Set([".git", "node_modules"]);

export type Ignore = (path: string) => boolean;

export function toIgnore(more?: Ignore): (name: string, path: string) => boolean {
  return (name, path) => IGNORED_NAMES.has(name) || (more?.(path) ?? false);
}
