import { isRecord, type Params } from "../rpc.ts";
import type { PermissionMetadata } from "../scribe.ts";
import { type Asker, askPermission, askQuestion } from "./ask.ts";
import type { Reading } from "./reading.ts";

/** An MCP server's question: mostly Codex's own, whether a tool may run; now and then a form. */
export function askForServer(reading: Reading, asker: Asker, params: Params): boolean {
  const { serverName, message, requestedSchema: schema, _meta: meta, url } = params;
  const properties =
    isRecord(schema) && isRecord(schema["properties"]) ? Object.entries(schema["properties"]) : [];
  if (properties.length > 0) return askForForm(reading, asker, String(message ?? ""), properties);
  const known = openCall(reading, asker.thread, params);
  const name = known?.name ?? `mcp__${String(serverName)}`;
  const metadata: PermissionMetadata = {
    ...(known === undefined ? {} : { call_id: known.id }),
    name,
    input: known?.input ?? (isRecord(meta) ? meta["tool_params"] : undefined) ?? {},
    kind: "mcp",
    ...(typeof message === "string" ? { reason: message } : {}),
    ...(typeof url === "string" ? { url } : {}),
  };
  return askPermission(reading, { kind: "elicitation", ...asker, permission: { action: name, metadata } });
}

/** The request names the server and quotes the tool, but not the call. */
function openCall(
  { state }: Reading,
  thread: string,
  params: Params,
): { id: string; name: string; input: unknown } | undefined {
  const prefix = `mcp__${String(params["serverName"])}__`;
  const meta = isRecord(params["_meta"]) ? params["_meta"] : {};
  const wanted = JSON.stringify(meta["tool_params"]);
  const open = Object.entries(state.calls)
    .filter(([, call]) => call.name.startsWith(prefix) && call.thread === thread)
    .map(([id, { name, input }]) => ({ id, name, input }));
  const quoted = (call: { name: string }): boolean =>
    String(params["message"] ?? "").includes(`"${call.name.slice(prefix.length)}"`);
  const exact = open.findLast((call) => quoted(call) && JSON.stringify(call.input) === wanted);
  return exact ?? open.findLast(quoted) ?? open.at(-1);
}

function askForForm(
  reading: Reading,
  asker: Asker,
  message: string,
  properties: [string, unknown][],
): boolean {
  const fields = properties.map(([name, schema]) => ({
    name,
    type: isRecord(schema) && typeof schema["type"] === "string" ? schema["type"] : "string",
  }));
  const titles = properties.map(([name, schema]) =>
    isRecord(schema) && typeof schema["title"] === "string" ? schema["title"] : name,
  );
  const options = properties.flatMap(([, schema]) =>
    isRecord(schema) && Array.isArray(schema["enum"]) ? schema["enum"].map(String) : [],
  );
  const prompt = { prompt: [message, ...titles].join("\n"), options };
  return askQuestion(reading, { kind: "form", ...asker, prompt, fields });
}
