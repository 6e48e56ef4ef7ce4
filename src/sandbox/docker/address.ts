import { existsSync } from "node:fs";
import { join } from "node:path";
import { SluiceError } from "../../contract/index.ts";
import { homeFolder } from "../homeFolder.ts";

/** Where an engine listens. Only on this machine: the folders of a sandbox are mounted from here. */
export type EngineAddress =
  | { readonly socketPath: string }
  | { readonly host: string; readonly port: number };

export interface AddressOptions {
  readonly socketPath?: string;
  /** As in DOCKER_HOST: `unix:///path` or `tcp://127.0.0.1:port`. */
  readonly host?: string;
}

/** What the caller says, else what the environment says, else the first socket that is there. */
export function toEngineAddress(
  options: AddressOptions,
  env: NodeJS.ProcessEnv = process.env,
): EngineAddress {
  if (options.socketPath !== undefined) return { socketPath: options.socketPath };
  const host = options.host ?? env["DOCKER_HOST"] ?? env["CONTAINER_HOST"];
  if (host) return parseHost(host);
  const known = knownSockets(env);
  return { socketPath: known.find((path) => existsSync(path)) ?? "/var/run/docker.sock" };
}

export function toAddressText(address: EngineAddress): string {
  return "socketPath" in address ? address.socketPath : `${address.host}:${address.port}`;
}

function parseHost(text: string): EngineAddress {
  if (text.startsWith("unix://")) return { socketPath: text.slice("unix://".length) };
  if (text.startsWith("/")) return { socketPath: text };
  const local = /^(?:tcp|http):\/\/(localhost|127\.\d+\.\d+\.\d+|\[::1\])(?::(\d+))?\/?$/.exec(text);
  if (local) return { host: (local[1] ?? "").replace(/^\[|\]$/g, ""), port: Number(local[2] ?? 2375) };
  const detail = `The engine at ${text} is out of reach: a sandbox's folders are mounted from this machine. Use unix:///path/to/the.sock or tcp://127.0.0.1:port.`;
  throw new SluiceError("invalid_request", detail, { host: text });
}

function knownSockets(env: NodeJS.ProcessEnv): string[] {
  const runtime = env["XDG_RUNTIME_DIR"];
  return [
    "/var/run/docker.sock",
    ...(runtime ? [join(runtime, "docker.sock"), join(runtime, "podman/podman.sock")] : []),
    join(homeFolder(env), ".docker/run/docker.sock"),
    "/run/podman/podman.sock",
  ];
}
