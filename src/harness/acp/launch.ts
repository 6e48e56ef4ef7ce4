import { isAbsolute } from "node:path";
import { type Launch, type SessionSpec, SluiceError } from "../../contract/index.ts";
import { findCli } from "../launch/cli.ts";
import { hostOf, mcpHosts } from "../launch/hosts.ts";
import type { Detected, LaunchContext } from "../port.ts";

/** Names of variables with a base URL, whose host is allowed. */
const BASE_URL = /_(BASE_URL|API_BASE|ENDPOINT|HOST)$/;

/** The session's command with its environment. */
export function launch(spec: SessionSpec, context: LaunchContext): Launch {
  const program = check(spec);
  return {
    argv: [program.path, ...(spec.command ?? []).slice(1)],
    env: { ...spec.env, HOME: context.home },
    // Most agents are scripts of Node.
    needs: [...program.needs, process.execPath],
    hosts: [...baseHosts(spec), ...mcpHosts(spec)],
  };
}

export function check(spec: SessionSpec): { path: string; needs: readonly string[] } {
  const [name] = spec.command ?? [];
  if (name === undefined) {
    throw new SluiceError(
      "invalid_request",
      'an ACP agent needs the command that starts it, such as {"agent":"acp","command":["gemini","--acp"]}',
    );
  }
  refuseUnsupported(spec);
  return find(name);
}

/** Refuses settings that ACP has no field for. An unknown agent's files for them are unknown too. */
function refuseUnsupported({ systemPrompt, instructions, skills }: SessionSpec): void {
  const given = Object.entries({ systemPrompt, instructions, skills }).find(
    ([, value]) => value !== undefined,
  );
  if (!given) return;
  throw new SluiceError(
    "invalid_request",
    `an ACP agent cannot be given ${given[0]}; put them into a file that the agent reads, or into the message`,
  );
}

/** The session names the command, so the agent counts as installed. */
export async function detect(): Promise<Detected> {
  return { installed: true };
}

function find(name: string): { path: string; needs: readonly string[] } {
  if (!isAbsolute(name) && name.includes("/")) {
    throw new SluiceError(
      "invalid_request",
      `the command "${name}" is a relative path; give its absolute path, or the name of a program on the server's PATH`,
      { command: name },
    );
  }
  return findCli(name) ?? missing(name);
}

function missing(name: string): never {
  throw new SluiceError(
    "agent_not_installed",
    `there is no program "${name}"; install it, or give its absolute path (~ is ${process.env["HOME"] ?? "not known"})`,
    { command: name },
  );
}

function baseHosts(spec: SessionSpec): string[] {
  return Object.entries(spec.env ?? {}).flatMap(([key, url]) => (BASE_URL.test(key) ? hostOf(url) : []));
}
