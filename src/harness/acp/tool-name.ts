import { isRecord, type Params } from "../rpc.ts";
import type { NamedTool } from "./dialect.ts";
import { toMcpName } from "./mcp.ts";

/** A tool's name, from wherever an agent of unknown make keeps it. The protocol itself only has titles. */
export function nameTool(fields: Params, servers: readonly string[]): NamedTool {
  const { title, kind, name, rawInput, _meta: meta } = fields;
  if (isRecord(rawInput) && typeof rawInput["server"] === "string" && typeof rawInput["tool"] === "string") {
    return { name: `mcp__${rawInput["server"]}__${rawInput["tool"]}`, input: rawInput["arguments"] };
  }
  const own = typeof name === "string" ? name : ownName(meta);
  if (own !== undefined) return { name: toMcpName(own, servers, "_") ?? own };
  const said = typeof title === "string" ? title : "";
  // A title of one word is the tool's name; a longer one describes the call.
  if (/^[A-Za-z_][\w.-]*$/.test(said)) return { name: toMcpName(said, servers, "_") ?? said };
  if (isRecord(rawInput) && rawInput["command"] !== undefined) return { name: "execute" };
  return { name: typeof kind === "string" && kind !== "other" ? kind : said || "tool" };
}

/** `_meta` of the known adapters: `{"claudeCode":{"toolName":"Bash"}}`. */
function ownName(meta: unknown): string | undefined {
  if (!isRecord(meta)) return undefined;
  for (const value of Object.values(meta)) {
    if (isRecord(value) && typeof value["toolName"] === "string") return value["toolName"];
  }
  return undefined;
}
