import { dirname, join } from "node:path";
import {
  TOOL_SERVER,
  SluiceError,
  type Launch,
  type McpServer,
  type Programs,
  type SessionSpec,
} from "../../contract/index.ts";
import { defined } from "../../contract/own-keys.ts";
import { nodeOf, ownPath } from "../../harness/launch/cli.ts";
import type { Harness } from "../../harness/port.ts";
import { findOwnProgram } from "../../harness/launch/executable.ts";
import { TOKEN_VARIABLE, URL_VARIABLE, type ToolAccess } from "../../tools/index.ts";
import { offeredTools } from "./tool-requests.ts";

/** An application may ask a person. The turn's own limits end an unanswered call. */
const CALL_TIMEOUT_MS = 24 * 3_600_000;

/** The spec with the tool server, where the session has tools for it. Pure. */
export function withToolServer(spec: SessionSpec, harness: Harness, programs?: Programs): SessionSpec {
  if (offeredTools(spec, harness).length === 0) return spec;
  const server: McpServer = {
    command: nodeOf({ ...defined({ programs }) }),
    args: [ownPath(programPath(), { ...defined({ programs }) })],
    inherit: [URL_VARIABLE, TOKEN_VARIABLE],
    timeoutMs: CALL_TIMEOUT_MS,
  };
  return { ...spec, mcp: { ...spec.mcp, [TOOL_SERVER]: server } };
}

/** The launch with the environment, files and hosts that the tool server needs. */
export function withToolAccess(launch: Launch, access: ToolAccess | undefined, programs?: Programs): Launch {
  if (!access) return launch;
  const needs = programs ? [] : [process.execPath, programPath()];
  return {
    ...launch,
    env: { ...launch.env, [URL_VARIABLE]: access.url, [TOKEN_VARIABLE]: access.token },
    needs: [...(launch.needs ?? []), ...needs],
    hosts: [...(launch.hosts ?? []), access.host],
  };
}

/** Refuses tools that no agent could call. */
export function refuseUnreachableTools(spec: SessionSpec): void {
  if ((spec.tools?.custom?.length ?? 0) === 0) return;
  if (spec.mcp?.[TOOL_SERVER] !== undefined) {
    const detail = `the MCP server "${TOOL_SERVER}" is the one of the session's own tools; give yours another name`;
    throw new SluiceError("invalid_request", detail);
  }
  if (spec.network !== "none") return;
  const detail = 'with the network "none" the agent cannot reach its application\'s tools; use "loopback"';
  throw new SluiceError("invalid_request", detail);
}

/** The program is built beside the scripted agent. */
function programPath(): string {
  return join(dirname(findOwnProgram().path), "tools.js");
}
