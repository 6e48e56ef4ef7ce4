import { readFileSync } from "node:fs";
import { join } from "node:path";
import type Dockerode from "dockerode";
import { SluiceError } from "../../../contract/index.ts";
import { homeFolder } from "../../data-folder.ts";
import { DialAgent } from "../../remote/dial.ts";
import { findRunnerProgram } from "../../remote/programs.ts";
import { parseSshAddress } from "../../ssh/address.ts";
import { SshMachine } from "../../ssh/connection.ts";

/** The types of dockerode do not know the agent of its connections. */
type EngineConnection = Dockerode.DockerOptions & { readonly agent?: DialAgent };

const LOOPBACK = /^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;
/** How `docker` itself speaks to an engine by SSH. */
const DIAL = "exec docker system dial-stdio";

/** The address of an engine on another machine in DOCKER_HOST; undefined for one on this machine. */
export function findRemoteEngine(env: NodeJS.ProcessEnv): string | undefined {
  const text = env["DOCKER_HOST"] || env["CONTAINER_HOST"];
  if (!text) return undefined;
  const host = /^(?:tcp|https?):\/\/(\[[^\]]*\]|[^:/]+)/.exec(text)?.[1];
  if (host === undefined) return /^ssh:/i.test(text) ? text : undefined;
  return LOOPBACK.test(host) && !hasTls(text, env) ? undefined : text;
}

/** What dockerode needs to reach it. Never without TLS or SSH: an engine without them obeys everybody. */
export function toConnection(text: string, env: NodeJS.ProcessEnv): EngineConnection {
  const ssh = parseSshAddress(text);
  if (ssh) {
    const machine = new SshMachine(ssh, { program: findRunnerProgram(), env });
    const agent = new DialAgent(() => machine.open(DIAL));
    return { protocol: "http", host: "docker", port: 80, agent };
  }
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !hasTls(text, env)) {
    const detail = `The engine at ${text} is on another machine and has no TLS, so anybody between could command it. Set DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH (ca.pem, cert.pem, key.pem), or use DOCKER_HOST=ssh://user@host.`;
    throw new SluiceError("unsupported_sandbox", detail, { reason: detail });
  }
  const folder = env["DOCKER_CERT_PATH"] || join(homeFolder(env), ".docker");
  return {
    protocol: "https",
    host: url.hostname.replace(/^\[|\]$/g, ""),
    port: Number(url.port || 2376),
    ca: readPem(folder, "ca.pem"),
    cert: readPem(folder, "cert.pem"),
    key: readPem(folder, "key.pem"),
  };
}

function hasTls(text: string, env: NodeJS.ProcessEnv): boolean {
  return text.startsWith("https:") || Boolean(env["DOCKER_TLS_VERIFY"] || env["DOCKER_CERT_PATH"]);
}

function readPem(folder: string, name: string): string {
  try {
    return readFileSync(join(folder, name), "utf8");
  } catch (cause) {
    const reason = `${join(folder, name)} cannot be read; DOCKER_CERT_PATH names the folder of ca.pem, cert.pem and key.pem`;
    throw new SluiceError("unsupported_sandbox", `Docker needs TLS: ${reason}.`, { reason }, { cause });
  }
}
