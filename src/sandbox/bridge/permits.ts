import { parseHostPatterns } from "./hostPattern.ts";

/** Whether an allow list leads to any port of a host, or to any host of a `*.domain`. */
export function permits(allowed: readonly string[], host: string): boolean {
  const wanted = host.toLowerCase();
  const domain = wanted.startsWith("*.") ? wanted.slice(1) : undefined;
  return parseHostPatterns(allowed).some((pattern) => {
    if (pattern.wildcard && pattern.host === "") return true;
    const isBelow = pattern.wildcard && `.${wanted.replace("*.", "")}`.endsWith(`.${pattern.host}`);
    if (domain !== undefined) return isBelow || pattern.host.endsWith(domain);
    return pattern.wildcard ? wanted.endsWith(`.${pattern.host}`) : pattern.host === wanted;
  });
}
