import type { OfferedTool } from "../ask.ts";
import { asObject } from "../json.ts";
import { type Calling, type Scene, toCalling, toCode } from "./native.ts";

/** A tool of an MCP server, under whichever name the client offers it. */
export function callMcpTool(
  { server, tool, input }: { server: string; tool: string; input: unknown },
  { ask }: Scene,
): Calling | undefined {
  const wanted = new Set([`mcp${server}${tool}`, `${server}${tool}`].map(squeeze));
  const spelled = ask.tools.find(({ namespace = "", name }) => wanted.has(squeeze(namespace + name)));
  const found = spelled ?? ask.tools.find(({ name }) => name === tool);
  if (found !== undefined) return callFound(found, input);
  // Code may call tools that its declarations leave out.
  const code = ask.tools.find(({ within }) => within !== undefined)?.within;
  if (code !== undefined) return { ...code, input: toCode(`mcp__${server}__${tool}`, asObject(input)) };
  const proxy = ask.tools.find(({ name }) => name === "use_tool");
  if (proxy === undefined) return undefined;
  return toCalling(proxy, { tool_name: `${server}__${tool}`, tool_input: asObject(input) });
}

/** A tool that the application gave the client, itself or through a bridge that puts a prefix before its name. */
export function callCustomTool(
  { name, input }: { name: string; input: unknown },
  { ask }: Scene,
): Calling | undefined {
  const found =
    ask.tools.find((tool) => tool.name === name) ?? ask.tools.find((tool) => tool.name.endsWith(`_${name}`));
  return found === undefined ? undefined : callFound(found, input);
}

/** The script's own arguments, whatever the tool's schema says of them. */
function callFound(tool: OfferedTool, input: unknown): Calling {
  const given = asObject(input);
  return tool.within === undefined ? { ...toCalling(tool, {}), input: given } : toCalling(tool, given);
}

function squeeze(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z0-9]/g, "");
}
