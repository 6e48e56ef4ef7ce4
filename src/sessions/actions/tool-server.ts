import { dirname, join } from "node:path";
import {
  BRIDGE_SERVER,
  SluiceError,
  type Launch,
  type McpServer,
  type SessionSpec,
} from "../../contract/index.ts";
import type { Harness } from "../../harness/port.ts";
import { findOwnProgram } from "../../harness/launch/executable.ts";
import { TOKEN_VARIABLE, URL_VARIABLE, type ToolAccess } from "../../tools/index.ts";
import { bridgedTools } from "./tool-requests.ts";

/** An application may ask a person; the limits of the turn end an unanswered call. */
const CALL_TIMEOUT_MS = 24 * 3_600_000;

/** The spec with the tool server, where the session has tools for it. Pure. */
export function withToolServer(spec: SessionSpec, harness: Harness): SessionSpec {
  if (bridgedTools(spec, harness).length === 0) return spec;
  const server: McpServer = {
    command: process.execPath,
    args: [programPath()],
    inherit: [URL_VARIABLE, TOKEN_VARIABLE],
    timeoutMs: CALL_TIMEOUT_MS,
  };
  return { ...spec, mcp: { ...spec.mcp, [BRIDGE_SERVER]: server } };
}

/** The launch with the environment, files and hosts that the tool server needs. */
export function withToolAccess(launch: Launch, access: ToolAccess | undefined): Launch {
  if (!access) return launch;
  return {
    ...launch,
    env: { ...launch.env, [URL_VARIABLE]: access.url, [TOKEN_VARIABLE]: access.token },
    needs: [...(launch.needs ?? []), process.execPath, programPath()],
    hosts: [...(launch.hosts ?? []), access.host],
  };
}

/** Refuses tools that no agent could call. */
export function refuseUnreachableTools(spec: SessionSpec): void {
  if ((spec.tools?.custom?.length ?? 0) === 0) return;
  if (spec.mcp?.[BRIDGE_SERVER] !== undefined) {
    throw new SluiceError(
      "invalid_request",
      `the MCP server "${BRIDGE_SERVER}" is the one of the session's own tools; give yours another name`,
    );
  }
  if (spec.network === "none") {
    throw new SluiceError(
      "invalid_request",
      'with the network "none" the agent cannot reach its application\'s tools; use "loopback"',
    );
  }
}

/** The program is built beside the scripted agent. */
function programPath(): string {
  return join(dirname(findOwnProgram().path), "tools.js");
}
