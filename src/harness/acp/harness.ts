import { isAbsolute } from "node:path";
import { type Launch, type Programs, type SessionSpec, SluiceError } from "../../contract/index.ts";
import { type Cli, findCli, findInside } from "../launch/cli.ts";
import { hostOf, mcpHosts } from "../launch/provider.ts";
import type { Detected, Harness, LaunchContext } from "../port.ts";
import { decodeAcp } from "./decode.ts";
import type { AcpDialect } from "./dialect.ts";
import { encodeAcp, toAcpCommand } from "./encode.ts";
import { greet } from "./handshake.ts";
import { type AcpState, initialState } from "./state.ts";

type AcpParts = Pick<Harness<AcpState>, "initial" | "greet" | "decode" | "encode" | "overhear">;

/** The parts that all harnesses with ACP share. Each has a launch of its own. */
export function speakAcp(dialect: AcpDialect): AcpParts {
  return {
    initial: initialState,
    greet,
    decode: (state, line) => decodeAcp(dialect, state, line),
    encode: (state, command) => encodeAcp(dialect, state, command),
    overhear: (state, line) => toAcpCommand(dialect, state, line),
  };
}

/** Any agent that speaks the Agent Client Protocol, by the command that starts it. */
export const acp: Harness<AcpState> = {
  id: "acp",
  title: "ACP agent",
  detect,
  check: (spec) => void check(spec),
  launch,
  ...speakAcp({}),
  lacks: ["questions", "subagents", "retries"],
};

/** Names of variables with a base URL, whose host is allowed. */
const BASE_URL = /_(BASE_URL|API_BASE|ENDPOINT|HOST)$/;

/** The session's command with its environment. */
function launch(spec: SessionSpec, context: LaunchContext): Launch {
  const program = check(spec, context.programs);
  return {
    argv: [program.path, ...(spec.command ?? []).slice(1)],
    env: { ...spec.env, HOME: context.home },
    // Most agents are scripts of Node.
    needs: [...program.needs, process.execPath],
    hosts: [...baseHosts(spec), ...mcpHosts(spec)],
  };
}

function check(spec: SessionSpec, programs?: Programs): Cli {
  const [name] = spec.command ?? [];
  if (name === undefined) {
    throw new SluiceError(
      "invalid_request",
      'an ACP agent needs the command that starts it, such as {"agent":"acp","command":["gemini","--acp"]}',
    );
  }
  refuseUnsupported(spec);
  return find(name, programs);
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
async function detect(): Promise<Detected> {
  return { installed: true };
}

function find(name: string, programs: Programs | undefined): Cli {
  if (!isAbsolute(name) && name.includes("/")) {
    throw new SluiceError(
      "invalid_request",
      `the command "${name}" is a relative path; give its absolute path, or the name of a program on the server's PATH`,
      { command: name },
    );
  }
  const cli = programs ? findInside(name, programs) : findCli(name);
  if (cli) return cli;
  throw new SluiceError(
    "agent_not_installed",
    `there is no program "${name}" on the server's PATH; install it, or give its absolute path`,
    { command: name },
  );
}

function baseHosts(spec: SessionSpec): string[] {
  return Object.entries(spec.env ?? {}).flatMap(([key, url]) => (BASE_URL.test(key) ? hostOf(url) : []));
}
