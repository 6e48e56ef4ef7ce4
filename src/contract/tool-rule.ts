import type { ToolRule, ToolSettings } from "./session.ts";

/** The session's rule for a tool, by the tool's common name; undefined where no rule names it. */
export function ruleOf(tools: ToolSettings | undefined, name: string): ToolRule | undefined {
  const rules = tools?.rules ?? {};
  const server = /^(mcp__.+?__)/.exec(name)?.[1];
  const names = server === undefined ? [name, "*"] : [name, `${server}*`];
  const known = names.find((candidate) => Object.hasOwn(rules, candidate));
  return known === undefined ? undefined : rules[known];
}
