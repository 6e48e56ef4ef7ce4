import { isAbsolute } from "node:path";
import { type Launch, type SessionSpec, SluiceError } from "../../contract/index.ts";
import { findCli } from "../cli.ts";
import { hostOf, mcpHosts } from "../hosts.ts";
import type { Detected, LaunchContext } from "../port.ts";

/** Base URLs under the names that agents know: the way to them is opened. */
const BASE_URL = /_(BASE_URL|API_BASE|ENDPOINT|HOST)$/;

/** The command of the session, with its environment and nothing else. */
export function launch(spec: SessionSpec, context: LaunchContext): Launch {
  const program = check(spec);
  return {
    argv: [program.path, ...(spec.command ?? []).slice(1)],
    env: { ...spec.env, HOME: context.home },
    // Most agents are Node programs, whose first line asks for `node`.
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
  refuseUntold(spec);
  return find(name);
}

/** The protocol has no words for these, and where an agent of unknown make looks for them nobody knows. */
function refuseUntold({ systemPrompt, instructions, skills }: SessionSpec): void {
  const given = Object.entries({ systemPrompt, instructions, skills }).find(
    ([, value]) => value !== undefined,
  );
  if (!given) return;
  throw new SluiceError(
    "invalid_request",
    `an ACP agent cannot be given ${given[0]}; put them into a file that the agent reads, or into the message`,
  );
}

/** Whether there is an agent depends on the command, which only a session names. */
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
