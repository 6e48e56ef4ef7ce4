import { BRIDGE_SERVER, type ToolRule, type ToolSettings } from "../../contract/index.ts";
import { ruleOf } from "../toolRule.ts";

/**
 * A session's rules as Claude's own, by the names of its tools: it asks by itself for some of them only, and knows no
 * tool that is denied. What is allowed needs none: it asks for it or not, and is answered at once. A tool that its
 * application runs in its place is one of the bridge, and its own is none.
 */
export function toPermissions(
  tools: ToolSettings | undefined,
): { permissions: { ask: string[]; deny: string[] } } | object {
  const rules = tools?.rules ?? {};
  const permissions: Record<"ask" | "deny", string[]> = { ask: [], deny: [] };
  const add = (rule: ToolRule | undefined, ...names: readonly string[]): void => {
    if (rule === "ask" || rule === "deny") permissions[rule].push(...names);
  };
  for (const [name, native] of NATIVE) {
    const isBridged = tools?.client?.includes(name) === true && !name.startsWith("web_");
    add(isBridged ? "deny" : ruleOf(tools, name), ...native);
    if (isBridged) add(ruleOf(tools, name), `mcp__${BRIDGE_SERVER}__${name}`);
  }
  for (const [name, rule] of Object.entries(rules)) {
    if (!name.startsWith("mcp__")) continue;
    if (!name.endsWith("__*")) add(rule, name);
    // A server that is denied would take along the tools of it that are not.
    else add(rule === "deny" && hasExceptions(rules, name) ? "ask" : rule, name.slice(0, -3));
  }
  return permissions.ask.length + permissions.deny.length === 0 ? {} : { permissions };
}

const NATIVE: readonly (readonly [string, readonly string[]])[] = [
  ["bash", ["Bash"]],
  ["read", ["Read"]],
  ["write", ["Write"]],
  ["edit", ["Edit", "NotebookEdit"]],
  ["glob", ["Glob"]],
  ["grep", ["Grep"]],
  ["web_fetch", ["WebFetch"]],
  ["web_search", ["WebSearch"]],
];

function hasExceptions(rules: NonNullable<ToolSettings["rules"]>, all: string): boolean {
  const prefix = all.slice(0, -1);
  return Object.entries(rules).some(
    ([name, rule]) => name !== all && name.startsWith(prefix) && rule !== "deny",
  );
}
