import { join } from "node:path";
import type { Launch, SessionSpec } from "../../contract/index.ts";
import { nodeOf, ownPath } from "../launch/cli.ts";
import { findOwnProgram } from "../launch/executable.ts";
import { skillFiles } from "../launch/files.ts";
import { mcpHosts } from "../launch/provider.ts";
import type { Detected, Harness, LaunchContext } from "../port.ts";
import { decode } from "./decode.ts";
import { encode, toCommand } from "./encode.ts";
import { initialState, type ScriptedState } from "./state.ts";

const SKILLS_FOLDER = ".scripted/skills";
const MCP_CONFIG = ".scripted/mcp.json";

/** The agent without a model. A script decides on its actions. */
export const scripted: Harness<ScriptedState> = {
  id: "scripted",
  title: "Scripted",
  skillsFolder: SKILLS_FOLDER,
  detect,
  launch,
  initial: ({ idPrefix }) => initialState(idPrefix),
  decode,
  encode,
  overhear: toCommand,
  lacks: [],
};

/** Starts the agent's bundled file by our own Node, with the session's settings. */
function launch(spec: SessionSpec, context: LaunchContext): Launch {
  const path = ownPath(findOwnProgram().path, context);
  const argv = [nodeOf(context), path];
  if (context.resume !== undefined) argv.push(`--resume=${context.resume}`);
  if (spec.model !== undefined) argv.push(`--model=${spec.model}`);
  if (spec.variant !== undefined) argv.push(`--variant=${spec.variant}`);
  const { rules, client } = spec.tools ?? {};
  if (rules !== undefined || client !== undefined) argv.push(`--tools=${JSON.stringify({ rules, client })}`);
  const env = { ...spec.env, HOME: context.home };
  const needs = [nodeOf(context), path];
  const skills = skillFiles(SKILLS_FOLDER, spec);
  if (spec.mcp === undefined) return { argv, env, needs, files: skills };
  argv.push(`--mcp-config=${join(context.home, MCP_CONFIG)}`);
  // Headers and environments of MCP servers hold secrets.
  const config = { path: MCP_CONFIG, content: JSON.stringify({ mcpServers: spec.mcp }), mode: 0o600 };
  return { argv, env, needs, files: [config, ...skills], hosts: mcpHosts(spec) };
}

async function detect(): Promise<Detected> {
  const { exists, version } = findOwnProgram();
  return exists ? { installed: true, version } : { installed: false, hint: "npm run build" };
}
