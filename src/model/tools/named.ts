import { TOOL_SERVER } from "../../contract/index.ts";
import type { OfferedTool } from "../ask.ts";
import { asObject } from "../json.ts";
import { type Calling, type Input, type Scene, toCalling, toCode } from "./native.ts";

/** Grok's tool for calls of tools that its request does not list. */
const PROXY = "use_tool";

/** Calls a tool of an MCP server. Clients spell its name in different ways. */
export function callMcpTool(
  { server, tool, input }: { server: string; tool: string; input: unknown },
  { ask }: Scene,
): Calling | undefined {
  const wanted = new Set([`mcp${server}${tool}`, `${server}${tool}`].map(squeeze));
  const spelled = ask.tools.find(({ namespace = "", name }) => wanted.has(squeeze(namespace + name)));
  const found = spelled ?? ask.tools.find(({ name }) => name === tool);
  if (found !== undefined) return callFound(found, input);
  // Code can also call tools that are not declared.
  const code = ask.tools.find(({ within }) => within !== undefined)?.within;
  if (code !== undefined) return { ...code, input: toCode(`mcp__${server}__${tool}`, asObject(input)) };
  const proxy = ask.tools.find(({ name }) => name === PROXY);
  if (proxy === undefined) return undefined;
  return toCalling(proxy, { tool_name: `${server}__${tool}`, tool_input: asObject(input) });
}

/** Calls a tool of the application, with or without the prefix of the tool server. */
export function callCustomTool(
  { name, input }: { name: string; input: unknown },
  { ask }: Scene,
): Calling | undefined {
  const found =
    ask.tools.find((tool) => tool.name === name) ?? ask.tools.find((tool) => tool.name.endsWith(`_${name}`));
  if (found !== undefined) return callFound(found, input);
  const code = ask.tools.find(({ within }) => within !== undefined)?.within;
  if (code !== undefined) return { ...code, input: toSearchingCode(name, asObject(input)) };
  const proxy = ask.tools.find((tool) => tool.name === PROXY);
  if (proxy === undefined) return undefined;
  return toCalling(proxy, { tool_name: `${TOOL_SERVER}__${name}`, tool_input: asObject(input) });
}

/** Code that finds a tool by its name: tools that are not declared are visible only when the code runs. */
function toSearchingCode(name: string, input: object): string {
  const wanted = JSON.stringify(name);
  return [
    `const found = ALL_TOOLS.find(({ name }) => name === ${wanted} || name.endsWith("__" + ${wanted}));`,
    `if (found === undefined) throw new Error("unsupported call: " + ${wanted});`,
    toCode("[found.name]", input as Input),
  ].join("\n");
}

/** Calls a tool with the script's arguments as they are, without a filter by the tool's schema. */
function callFound(tool: OfferedTool, input: unknown): Calling {
  const given = asObject(input);
  return tool.within === undefined ? { ...toCalling(tool, {}), input: given } : toCalling(tool, given);
}

function squeeze(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z0-9]/g, "");
}
