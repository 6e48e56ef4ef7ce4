import type { ToolRule, ToolSettings } from "../contract/index.ts";

/** What a session's rules say of a tool, by the name that all agents share; undefined where they say nothing. */
export function ruleOf(tools: ToolSettings | undefined, name: string): ToolRule | undefined {
  const rules = tools?.rules ?? {};
  const server = /^(mcp__.+?__)/.exec(name)?.[1];
  const names = server === undefined ? [name, "*"] : [name, `${server}*`];
  const known = names.find((candidate) => Object.hasOwn(rules, candidate));
  return known === undefined ? undefined : rules[known];
}
